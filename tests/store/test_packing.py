"""Bodies come back letter for letter, in fewer bytes."""

import json
from base64 import b64encode

from hypothesis import given
from hypothesis import strategies as st

from sigma_mem.store.packing import BodyPacking

numbers = st.floats(allow_nan=False, allow_infinity=False) | st.integers()
texts = st.text() | st.binary(min_size=24, max_size=80).map(lambda raw: b64encode(raw).decode())
values = st.recursive(
    numbers | texts | st.none() | st.booleans(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(texts, values, max_size=4), st.dictionaries(texts, values, max_size=4))
def test_any_json_comes_back_letter_for_letter(first, body):
    for ascii_only in (True, False):
        packing = BodyPacking(json.dumps(first).encode())
        raw = json.dumps(body, separators=(",", ":"), ensure_ascii=ascii_only).encode(errors="surrogatepass")
        packed = packing.pack(raw)
        assert packing.unpack(packed) == raw
        assert json.dumps(packing.loads(packed)) == json.dumps(json.loads(raw))
        assert len(packed) <= len(raw) + 1


def test_numbers_and_base64_take_what_they_have_in_memory():
    claims = b64encode(bytes(range(60))).decode()
    body = json.dumps({"probs": {"a": 0.46372855225231546, "b": 0.46372855225231546}, "claims": claims})
    assert len(BodyPacking().pack(body.replace(" ", "").encode())) < 110


def test_what_only_looks_like_a_number_or_base64_stays():
    for text in (
        '{"x":"a:0.4637285522523154600,"}',
        '{"x":"' + "A" * 33 + '="}',
        '{"x":[0.1000000000000000001]}',
    ):
        packing = BodyPacking()
        assert packing.unpack(packing.pack(text.encode())) == text.encode()
