"""A body of JSON as its shape and its values: lines of one kind share the shape, and keep the values only.

The shape is the text with a mark, which JSON cannot hold, in the place of every number and string that is a
value. It is compressed against shapes that lines have in general, with the peers of this memory, and comes to
a few bytes. Behind it stand the values: doubles as they are in memory; numbers of at most four decimals,
integers and lengths in one to three bytes; base64 as the bytes it stands for; strings as they are, or by
their number where the memory's first line has them. Nothing is lost: a value that would not come back letter
for letter stays in the shape.
"""

import json
import re
import struct
import zlib
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from itertools import groupby, islice
from typing import Any, NamedTuple

from sigma_mem.store.building import Build, builder, tree_of
from sigma_mem.store.marking import inner_text, marked
from sigma_mem.store.numbers import coded_integer, coded_number, read_integer, read_number, read_numbers

DOUBLE, NUMBER, INTEGER, AGAIN, BASE64, TEXT = (bytes([mark]) for mark in range(1, 7))
LONG = 24  # bytes from which on a string is compressed together with others
_WINDOW = -15
_KNOWN_SHAPES = 1024  # kept in memory
_LARGEST = 1 << 28  # bytes of a body
_TOKEN = re.compile(
    rb'(?<=[:,\[])(?:(-?\d+(?:\.\d+)?(?:e[-+]\d+)?)|"((?:[^"\\]|\\.)*)")(?=[,\]}])', re.DOTALL
)
_MARK = re.compile(rb"[\x01-\x06]")
_CONTROL = re.compile(rb"[\x00-\x1f]")
_BASE64 = re.compile(rb"[A-Za-z0-9+/]{16,}={0,2}")
_FLOAT = struct.Struct("<d")
_STAR = re.compile(rb"\*:(\[[^\]]*\]|\w+)")
_DIGIT = re.compile(rb"(?<=[:,\[])[1-6](?=[,\]}])")
_USUAL = tuple(
    b"0 1 2 3 4 5 6 7 8 9 A B C D E F G H I J yes no true false default agreement calibrated-vote "
    b"calibrated-route m-vote m-route majority expert-vote posterior posterior-no-g select explore "
    b"adaptive:calibrated-vote adaptive:calibrated-route adaptive:m-vote adaptive:m-route adaptive:majority "
    b"adaptive:expert-vote adaptive:posterior adaptive:posterior-no-g adaptive:select".split()
)  # strings that lines often have; their places are part of the format


class Shape(NamedTuple):
    """A text with marks: what stands between them, and the marks in order."""

    between: list[bytes]
    marks: bytes
    doubles: struct.Struct
    runs: list[tuple[int, int]]  # marks that are the same one after another, and how many
    tree: Any  # JSON values with a place for every mark; None where only the text shows where these are
    build: Build | None  # puts values in their places

    @classmethod
    def of(cls, text: bytes) -> "Shape":
        """The shape of a text with marks."""
        between, marks = _MARK.split(text), b"".join(_MARK.findall(text))
        runs = [(mark, len(list(same))) for mark, same in groupby(marks)]
        doubles, tree = struct.Struct(f"<{marks.count(DOUBLE)}d"), tree_of(between)
        return cls(between, marks, doubles, runs, tree, None if tree is None else builder(tree))


class ShapePacking:
    """Packs JSON texts by their shapes, given the first line of their ledger."""

    def __init__(self, first: bytes = b"") -> None:
        peers, words = _words_of(first)
        self._dictionary = _expected(peers)
        self._words = [*_USUAL, *(word for word in words if word not in _USUAL)]
        self._numbers = {word: number for number, word in enumerate(self._words, start=1)}
        self._strings = [_string(word) for word in self._words]
        self._codes = {  # of words as they are when a body is not JSON yet
            text: coded_integer(number)
            for number, (word, text) in enumerate(zip(self._words, self._strings, strict=True), start=1)
            if inner_text(text) == word
        }
        self._packed: dict[bytes, bytes] = {}
        self._shapes: dict[bytes, Shape] = {}

    def pack(self, body: bytes) -> bytes | None:
        """A body in fewer bytes; None for one that is no JSON."""
        if _CONTROL.search(body):
            return None
        doubles, codes, long = bytearray(), bytearray(), bytearray()
        last = b""

        def mark(found: re.Match[bytes]) -> bytes:
            nonlocal last
            number, text = found.groups()
            if number is None:
                return self._text(text, codes, long)
            coded = coded_number(number)
            if coded is not None:
                codes.extend(coded[1])
                return NUMBER if coded[0] else INTEGER
            if number == last:
                return AGAIN
            if repr(float(number)).encode() != number:  # many digits, or an integer beyond 2⁵³
                return number
            last = number
            doubles.extend(_FLOAT.pack(float(number)))
            return DOUBLE

        return self._joined(_TOKEN.sub(mark, body), bytes(doubles), codes, long)

    def pack_body(self, body: Mapping[str, Any]) -> bytes:
        """A body in fewer bytes; TypeError or ValueError for values that only JSON's text can tell."""
        shape, doubles, codes, long = marked(body, self._codes, self._text)
        return self._joined(shape, struct.pack(f"<{len(doubles)}d", *doubles), codes, long)

    def _joined(self, text: bytes, doubles: bytes, codes: bytearray, long: bytearray) -> bytes:
        shape = self._packed_shape(text)
        texts = _deflated(bytes(long), self._dictionary) if long else b""
        return b"".join((coded_integer(len(shape)), shape, doubles, codes, texts))

    def unpack(self, packed: bytes, at: int = 0) -> bytes:
        """The body, letter for letter."""
        shape, at = self.shape(packed, at)
        values = self._values(shape, packed, at)
        parts = [part for pair in zip(shape.between, values, strict=False) for part in pair]
        return b"".join([*parts, shape.between[-1]])

    def loads(self, packed: bytes, at: int = 0) -> Any:
        """The body as JSON values, without its text."""
        shape, values = self.shape(packed, at)
        if shape.build is None:
            return json.loads(self.unpack(packed, at))
        return shape.build(self._objects(shape, packed, values))

    def shape(self, packed: bytes, at: int = 0) -> tuple[Shape, int]:
        """The shape of a packed body, and where its values begin."""
        size, at = read_integer(packed, at)
        key, end = packed[at : at + size], at + size
        known = self._shapes.get(key)
        if known is None:
            known = Shape.of(_inflated(key, self._dictionary))
            if len(self._shapes) >= _KNOWN_SHAPES:
                self._shapes.clear()
            self._shapes[key] = known
        return known, end

    def word(self, number: int) -> str:
        """The string that has this number, from 1."""
        return self._strings[number - 1]

    def _text(self, inner: bytes, codes: bytearray, long: bytearray) -> bytes:
        """The mark of a string, whose value goes to the codes."""
        if len(inner) >= 16 and _BASE64.fullmatch(inner):
            try:
                raw = b64decode(inner, validate=True)
            except Base64Error:
                raw = b""
            if raw and b64encode(raw) == inner:
                codes.extend(coded_integer(len(raw)) + raw)
                return BASE64
        number = self._numbers.get(inner, 0)
        codes.extend(coded_integer(number))
        if not number:
            codes.extend(coded_integer(len(inner)))
            (long if len(inner) >= LONG else codes).extend(inner)
        return TEXT

    def _values(self, shape: Shape, packed: bytes, at: int) -> list[bytes]:
        """The values in order, as JSON."""
        double, at = at, at + shape.doubles.size
        values: list[bytes] = []
        long: list[tuple[int, int]] = []  # places of long strings, and their sizes
        last = b""
        for mark in shape.marks:
            value = last  # AGAIN
            if mark == DOUBLE[0]:
                value = last = repr(_FLOAT.unpack_from(packed, double)[0]).encode()
                double += 8
            elif mark == NUMBER[0]:
                number, at = read_number(packed, at)
                value = repr(number).encode()
            elif mark != AGAIN[0]:
                integer, at = read_integer(packed, at)
                if mark == INTEGER[0]:
                    value = b"%d" % integer
                elif mark == BASE64[0]:
                    value, at = b'"%b"' % b64encode(packed[at : at + integer]), at + integer
                elif integer:
                    value = b'"%b"' % self._words[integer - 1]
                else:
                    size, at = read_integer(packed, at)
                    if size >= LONG:
                        long.append((len(values), size))
                    else:
                        value, at = b'"%b"' % packed[at : at + size], at + size
            values.append(value)
        if long:
            texts, start = _inflated(packed[at:], self._dictionary), 0
            for place, size in long:
                values[place], start = b'"%b"' % texts[start : start + size], start + size
        return values

    def _objects(self, shape: Shape, packed: bytes, at: int) -> list[Any]:
        """The values in order."""
        doubles = iter(shape.doubles.unpack_from(packed, at))
        at += shape.doubles.size
        values: list[Any] = []
        long: list[tuple[int, int]] = []  # places of long strings, and their sizes
        last = 0.0
        for mark, count in shape.runs:
            if mark == NUMBER[0]:
                numbers, at = read_numbers(packed, at, count)
                values += numbers
            elif mark == DOUBLE[0]:
                values += islice(doubles, count)
                last = values[-1]
            elif mark == AGAIN[0]:
                values += [last] * count
            else:
                for _ in range(count):
                    value, at = self._object(mark, packed, at)
                    if type(value) is _LongText:
                        long.append((len(values), value.size))
                    values.append(value)
        if long:
            texts, start = _inflated(packed[at:], self._dictionary), 0
            for place, size in long:
                values[place], start = _string(texts[start : start + size]), start + size
        return values

    def _object(self, mark: int, packed: bytes, at: int) -> tuple[Any, int]:
        """One value that is neither a float nor again one, and where the next begins."""
        integer, at = read_integer(packed, at)
        if mark == INTEGER[0]:
            return integer, at
        if mark == BASE64[0]:
            return b64encode(packed[at : at + integer]).decode(), at + integer
        if integer:
            return self._strings[integer - 1], at
        size, at = read_integer(packed, at)
        return (_LongText(size), at) if size >= LONG else (_string(packed[at : at + size]), at + size)

    def _packed_shape(self, shape: bytes) -> bytes:
        packed = self._packed.get(shape)
        if packed is None:
            packed = _deflated(shape, self._dictionary)
            if len(self._packed) >= _KNOWN_SHAPES:
                self._packed.clear()
            self._packed[shape] = packed
        return packed


class _LongText(NamedTuple):
    """A string that stands behind all other values."""

    size: int


def _string(inner: bytes) -> str:
    """What stands between the quotes of a JSON string, as text."""
    return str(json.loads(b'"%b"' % inner)) if b"\\" in inner else inner.decode()


def _deflated(raw: bytes, dictionary: bytes) -> bytes:
    deflate = zlib.compressobj(9, zlib.DEFLATED, _WINDOW, 9, zlib.Z_DEFAULT_STRATEGY, dictionary)
    return deflate.compress(raw) + deflate.flush()


def _inflated(raw: bytes, dictionary: bytes) -> bytes:
    return zlib.decompressobj(_WINDOW, dictionary).decompress(raw, _LARGEST)


def _words_of(first: bytes) -> tuple[list[bytes], list[bytes]]:
    """The peers that a first line names, and every string that is a value in it; as JSON has them."""
    try:
        body = json.loads(first)
    except ValueError:  # none yet: this packs the first line itself
        return [], []
    found = body.get("peers") if isinstance(body, dict) else None
    peers = (
        [json.dumps(peer)[1:-1].encode() for peer in found if isinstance(peer, str)]
        if isinstance(found, list)
        else []
    )
    return peers, [*dict.fromkeys((*peers, *(text for number, text in _TOKEN.findall(first) if text)))]


def _expected(peers: list[bytes]) -> bytes:
    """Shapes that lines have in general, with these peers in the place of a star."""

    def by_peer(found: re.Match[bytes]) -> bytes:
        return b",".join(b'"%b":%b' % (peer, found[1]) for peer in peers)

    with_peers = _STAR.sub(by_peer, _shapes_in_general())
    return _DIGIT.sub(lambda found: bytes([int(found[0])]), with_peers)


@lru_cache
def _shapes_in_general() -> bytes:
    return (files("sigma_mem.store") / "shapes.txt").read_bytes().replace(b"\n", b"")
