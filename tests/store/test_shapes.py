"""A body is its shape and its values: lines of one kind share the shape, and nothing is lost."""

import gc
import json
import sqlite3
from base64 import b64encode
from contextlib import closing

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sigma_mem import SigmaMem
from sigma_mem.store.marking import marked
from sigma_mem.store.numbers import coded_integer, coded_number, read_integer, read_number
from sigma_mem.store.shapes import ShapePacking

FIRST = json.dumps({"peers": ["ann", "bob"], "rank": 4}, separators=(",", ":")).encode()
decimals = st.integers(-10_000_000, 10_000_000).map(lambda n: n / 10_000)


@given(st.integers(-(1 << 60), 1 << 60), st.binary(max_size=3))
def test_an_integer_comes_back_and_the_next_code_stands_behind_it(n, rest):
    code = coded_integer(n)
    assert read_integer(b"?" + code + rest, 1) == (n, 1 + len(code))


@given(
    decimals | st.integers(-(1 << 40), 1 << 40).map(float) | st.floats(allow_nan=False, allow_infinity=False)
)
def test_a_number_has_a_code_only_where_it_comes_back_letter_for_letter(x):
    token = repr(x).encode()
    coded = coded_number(token)
    if coded is None:
        assert len(token.partition(b".")[2]) > 4 or len(token) > 14 or b"e" in token or token == b"-0.0"
    else:
        assert coded[0]
        number, end = read_number(coded[1], 0)
        assert (repr(number).encode(), end) == (token, len(coded[1]))


@pytest.mark.parametrize(("token", "size"), [(b"1.0", 1), (b"-1.0", 1), (b"0.6931", 2), (b"8.2943", 3)])
def test_numbers_that_lines_are_full_of_are_short(token, size):
    assert len(coded_number(token)[1]) == size


@pytest.mark.parametrize(
    "text",
    [
        '{"a,0.5,b":0.25}',  # a number inside a key
        '{"a":1,"a":2.5}',  # a key twice
        '{"a":[0.1000000000000000001,1e5,12345678901234567890123,0.5]}',  # numbers that stay in the shape
        '[[],{},[0.5,[1.5,"x"]],{"b":{"c":-0.0}},"",null,true]',
        "0.5",
    ],
)
def test_values_are_those_of_the_text(text):
    packed = ShapePacking(FIRST).pack(text.encode())
    found = ShapePacking(FIRST).loads(packed)
    assert json.dumps(found) == json.dumps(json.loads(text))


def feedback(**labels):
    return {"labels": labels, "source": "a test", "amends": False, "tick": 7.0, "time": 1794846460.8880138}


def test_lines_of_one_kind_share_their_shape():
    packing = ShapePacking(FIRST)
    bodies = [feedback(ann=1.0, bob=c) for c in (-1.0, 0.25, 1.0)]
    packed = [packing.pack(json.dumps(body, separators=(",", ":")).encode()) for body in bodies]
    assert len({packing.shape(each)[0].marks for each in packed}) == 1
    assert max(map(len, packed)) < 40
    assert [json.loads(packing.unpack(each)) for each in packed] == bodies


@given(st.text(max_size=60), st.text(max_size=60), st.binary(max_size=40))
def test_texts_come_back_whatever_is_in_them(name, text, raw):
    packing = ShapePacking(FIRST)
    body = {name: text, "t": [text, "ann", {"x": b64encode(raw).decode()}], "u": text * 3, "e": [[], {}, ""]}
    for ascii_only in (True, False):
        line = json.dumps(body, separators=(",", ":"), ensure_ascii=ascii_only).encode(errors="surrogatepass")
        packed = packing.pack(line)
        if packed is not None:
            assert ShapePacking(FIRST).unpack(packed) == line
            assert ShapePacking(FIRST).loads(packed) == json.loads(line)


def test_a_line_leaves_nothing_to_the_garbage_collector():
    body = {"peer": "ann", "probs": {"ann": 0.123456789, "bob": [1, None, 0.5]}}
    gc.collect()
    gc.disable()
    try:
        for _ in range(100):
            marked(body, {}, lambda text, codes, long: b"\x05")
        assert gc.collect() < 100
    finally:
        gc.enable()


def test_an_event_with_a_vote_of_five_peers_takes_less_than_a_kilobyte(tmp_path):
    rng = np.random.default_rng(0)
    words = ["".join(map(chr, rng.integers(97, 123, size=rng.integers(2, 10)))) for _ in range(800)]
    path, sizes = tmp_path / "memory.db", []
    with SigmaMem(list("abcde"), path=path, rank=64, keep_text=False, snapshot_every=10**6) as mem:
        for i in range(300):
            phi, right = rng.normal(size=64), rng.random(5) < 0.6
            texts = [" ".join(rng.choice(words, size=rng.integers(20, 90))) for _ in range(5)]
            said = {
                p: f"{t} = {i}, so {42 if r else i}" for p, t, r in zip("abcde", texts, right, strict=True)
            }
            d = mem.vote("which?", said, phi=phi / np.linalg.norm(phi))
            mem.feedback(d.id, dict(zip("abcde", right.tolist(), strict=True)), wait=False)
            if i in (99, 299):
                mem.store.flush()
                with closing(sqlite3.connect(path)) as db:
                    sizes.append(8192 * db.execute("PRAGMA page_count").fetchone()[0])
    assert (sizes[1] - sizes[0]) / 200 <= 1000
