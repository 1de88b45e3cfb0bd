"""JSON in few bytes: by its shape (`shapes`), or as it is where that takes fewer.

Bodies that versions before 0.2.0 compressed are read as well: long numbers and base64 stood in front, as they
are in memory, with marks in their places that JSON cannot hold.
"""

import json
import re
import struct
import zlib
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Mapping
from functools import cache, cached_property
from importlib.resources import files
from typing import Any

from sigma_mem.store.numbers import read_integer
from sigma_mem.store.shapes import ShapePacking

_FIRST_LINE = 2048  # bytes of it that serve as words
_LARGEST = 1 << 28  # bytes of a body
_PLAIN, _DEFLATED, SHAPED = 0, 1, 2  # how a body is packed, its first byte
_FLOAT, _AGAIN, _BASE64 = b"\x01", b"\x02", b"\x03"  # marks
_TOKEN = re.compile(rb'(?<=[:,\[])-?\d+\.\d{9,}(?:e-\d+)?(?=[,\]}])|"[A-Za-z0-9+/]{32,}={0,2}"')
_MARK = re.compile(rb"[\x01-\x03]")
_CONTROL = re.compile(rb"[\x00-\x1f]")
_DOUBLE, _SIZE = struct.Struct("<d"), struct.Struct("<H")


def encoded(body: Mapping[str, Any]) -> bytes:
    """A body as JSON; raises TypeError, ValueError or RecursionError where it has no such form."""
    return json.dumps(dict(body), allow_nan=False, separators=(",", ":")).encode()


class BodyPacking:
    """Packs JSON texts that share words and shapes with the first of them."""

    def __init__(self, first: bytes = b"") -> None:
        self._first = first
        self.shapes = ShapePacking(first)

    def pack(self, body: bytes) -> bytes:
        """A body in fewer bytes."""
        small = self.shapes.pack(body)
        if small is None or len(small) > len(body):
            return bytes([_PLAIN]) + body
        return bytes([SHAPED]) + small

    def pack_body(self, body: Mapping[str, Any]) -> bytes:
        """The same of a body that is not JSON yet; raises what `json.dumps` does."""
        try:
            return bytes([SHAPED]) + self.shapes.pack_body(body)
        except (TypeError, ValueError, RecursionError):  # a float of numpy's, say, which JSON can tell
            return self.pack(encoded(body))

    def unpack(self, packed: bytes) -> bytes:
        """The body, letter for letter."""
        if packed[0] == SHAPED:
            return self.shapes.unpack(packed, 1)
        if packed[0] == _PLAIN:
            return packed[1:]
        end = 3 + _SIZE.unpack_from(packed, 1)[0]
        rest = self._inflate.copy().decompress(packed[end:], _LARGEST)
        return _inserted(rest, packed[3:end])

    def shape_key(self, packed: bytes, at: int) -> bytes:
        """What bodies of one shape, which stands here, have in common."""
        size, start = read_integer(packed, at)
        return packed[at : start + size]

    def loads(self, packed: bytes) -> Any:
        """The body as JSON values."""
        return self.shapes.loads(packed, 1) if packed[0] == SHAPED else json.loads(self.unpack(packed))

    @cached_property
    def _inflate(self) -> "zlib._Decompress":
        return zlib.decompressobj(-13, _words() + _extracted(self._first[:_FIRST_LINE])[0])


def _extracted(body: bytes) -> tuple[bytes, bytes]:
    """The body with marks, and what they stand for."""
    raw, last = bytearray(), [b""]

    def mark(found: re.Match[bytes]) -> bytes:
        token = found.group()
        if token == last[0]:
            return _AGAIN
        if len(raw) > 32_000:
            return token
        if token.startswith(b'"'):
            try:
                inner = b64decode(token[1:-1], validate=True)
            except Base64Error:
                return token
            if b64encode(inner) != token[1:-1] or len(inner) > 32_000:
                return token
            raw.extend(_SIZE.pack(len(inner)) + inner)
            return _BASE64
        if repr(float(token)).encode() != token:
            return token
        last[0] = token
        raw.extend(_DOUBLE.pack(float(token)))
        return _FLOAT

    if _CONTROL.search(body):
        return body, b""
    return _TOKEN.sub(mark, body), bytes(raw)


def _inserted(rest: bytes, raw: bytes) -> bytes:
    """What `_extracted` took apart."""
    if not raw:
        return rest
    at, last = 0, b""

    def token(found: re.Match[bytes]) -> bytes:
        nonlocal at, last
        match found.group():
            case b"\x01":
                last = repr(_DOUBLE.unpack_from(raw, at)[0]).encode()
                at += 8
                return last
            case b"\x02":
                return last
        size = _SIZE.unpack_from(raw, at)[0]
        at += 2 + size
        return b'"' + b64encode(raw[at - size : at]) + b'"'

    return _MARK.sub(token, rest)


@cache
def _words() -> bytes:
    return (files("sigma_mem.store") / "words.txt").read_bytes()
