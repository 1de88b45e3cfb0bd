"""Arrays as bytes, without object decoding: magic, version, JSON header, raw numbers, CRC32.

Layout of a packed blob, all integers little-endian::

    8 bytes  b"SIGMAARR"
    u32      format version
    u32      length of the header
    header   UTF-8 JSON {"meta": …, "arrays": [[name, dtype, shape], …]}
    payload  the arrays one after another, C order, float64 or int64
    u32      CRC32 of everything before it

Every field is checked on the way back: a blob that is cut, changed or padded is a
StoreCorruptError, never a wrong number.
"""

import json
import math
import struct
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sigma_mem.errors import StoreCorruptError, StoreVersionError

MAGIC = b"SIGMAARR"
FORMAT = 1
PREFIX = struct.Struct("<8sII")
CRC = struct.Struct("<I")

AnyArray = NDArray[Any]


def pack_arrays(meta: Mapping[str, Any], arrays: Mapping[str, AnyArray]) -> bytes:
    """Pack JSON metadata and float64 or int64 arrays; the same input gives the same bytes.

    >>> meta, arrays = unpack_arrays(pack_arrays({"clock": 3}, {"G": np.eye(2)}))
    >>> meta["clock"], arrays["G"].tolist()
    (3, [[1.0, 0.0], [0.0, 1.0]])
    """
    layout, payload = [], []
    for name, array in arrays.items():
        dtype = {"f": "<f8", "i": "<i8"}.get(array.dtype.kind)
        if dtype is None or array.dtype.itemsize != 8:
            got = f"array {name!r} has dtype {array.dtype}"
            raise ValueError(f"{got}, expected float64 or int64; cast it first")
        layout.append([name, dtype, list(array.shape)])
        payload.append(np.asarray(array, dtype=dtype).tobytes())
    text = {"meta": dict(meta), "arrays": layout}
    header = json.dumps(text, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    blob = b"".join([PREFIX.pack(MAGIC, FORMAT, len(header)), header, *payload])
    return blob + CRC.pack(zlib.crc32(blob))


def unpack_arrays(blob: bytes) -> tuple[dict[str, Any], dict[str, AnyArray]]:
    """Metadata and writable arrays of `pack_arrays`; StoreCorruptError if any byte is not as it was."""
    header, payload = _split(blob)
    arrays, at = {}, 0
    for name, dtype, shape in _layout(header):
        count = math.prod(shape)
        end = at + 8 * count
        if end > len(payload):
            raise _damaged(f"array {name!r} needs {end} bytes of payload, there are {len(payload)}")
        raw = np.frombuffer(payload, dtype=dtype, count=count, offset=at)
        try:
            arrays[name] = raw.reshape(shape).astype(np.dtype(dtype).newbyteorder("="))
        except ValueError as error:  # (0, 2⁶², 2⁶²) has no bytes, and numpy has no such shape
            raise _damaged(f"array {name!r} has shape {shape}") from error
        at = end
    if at != len(payload):
        raise _damaged(f"{len(payload) - at} bytes too many")
    return header["meta"], arrays


def _split(blob: bytes) -> tuple[dict[str, Any], memoryview]:
    """Check magic, CRC and version; return the parsed header and the raw payload."""
    if len(blob) < PREFIX.size + CRC.size:
        raise _damaged(f"only {len(blob)} bytes")
    magic, version, length = PREFIX.unpack_from(blob)
    if magic != MAGIC:
        raise _damaged(f"it starts with {magic!r}")
    body = memoryview(blob)[: -CRC.size]
    if zlib.crc32(body) != CRC.unpack(blob[-CRC.size :])[0]:
        raise _damaged("its CRC32 does not match")
    if version > FORMAT:
        got = f"packed arrays have format {version}"
        raise StoreVersionError(f"{got}, this version reads up to {FORMAT}; upgrade sigma-mem")
    try:
        header = json.loads(bytes(body[PREFIX.size : PREFIX.size + length]))
    except ValueError as error:
        raise _damaged("its header is not JSON") from error
    if not isinstance(header, dict) or not isinstance(header.get("meta"), dict):
        raise _damaged("its header has no meta object")
    return header, body[PREFIX.size + length :]


def _layout(header: dict[str, Any]) -> list[tuple[str, str, list[int]]]:
    """The header's list of (name, dtype, shape), every one checked."""
    entries = header.get("arrays")
    if not isinstance(entries, list):
        raise _damaged("its header lists no arrays")
    for entry in entries:
        match entry:
            case [str(), "<f8" | "<i8", list(shape)] if all(type(n) is int and n >= 0 for n in shape):
                continue
        raise _damaged(f"its header describes an array as {entry!r}")
    if len({name for name, _, _ in entries}) != len(entries):
        raise _damaged("its header names an array twice")
    return entries


def _damaged(what: str) -> StoreCorruptError:
    return StoreCorruptError(
        f"packed arrays are damaged: {what}; expected what pack_arrays wrote. Rebuild them from the ledger"
    )
