"""Bodies come back letter for letter, in fewer bytes."""

import json
import math
from base64 import b64encode

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sigma_mem.store.packing import BodyPacking, encoded

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


decimals = st.integers(-10_000_000, 10_000_000).map(lambda n: n / 10_000)
repeated = st.dictionaries(st.text(max_size=3), st.lists(numbers | decimals, max_size=3).map(lambda x: x + x))


@given(st.dictionaries(texts, values, max_size=4), st.dictionaries(texts, values | repeated, max_size=4))
def test_a_body_is_packed_without_its_text_as_it_is_with_it(first, body):
    packing, raw = BodyPacking(encoded(first)), encoded(body)
    packed = packing.pack_body(body)
    assert packing.unpack(packed) == raw
    assert json.dumps(packing.loads(packed)) == json.dumps(body)
    assert len(packed) <= len(packing.pack(raw)) + 8  # 16 digits, and what is longer packed than not


def test_values_of_other_types_are_packed_as_json_has_them():
    packing = BodyPacking()
    body = {"a": np.float64(0.5), "b": {1: (True, None)}, "c": -0.0, "d": 2**60, "e": [1e300, 1e300, 1e-300]}
    assert packing.unpack(packing.pack_body(body)) == encoded(body)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, b"bytes", {1, 2}])
def test_what_json_does_not_have_is_refused(value):
    with pytest.raises((TypeError, ValueError)):
        BodyPacking().pack_body({"x": [value]})


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
