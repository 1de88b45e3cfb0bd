"""Bodies of records in fewer bytes: zstd with a dictionary of what lines have in common.

The dictionary is part of the format, and made by ``benchmarks/line_dictionary.py``. It holds no line of a
memory: a line that is forgotten must not be needed to read another.
"""

import threading
from functools import cache
from importlib.resources import files

import zstandard

_PLAIN, _ZSTD = b"\0", b"\1"  # first byte of what is stored
_LEVEL = 3
_LARGEST = 1 << 28  # bytes of a body


def packed(body: bytes) -> bytes:
    """A body as it is stored."""
    small = _of_thread().compress(body)
    return _ZSTD + small if len(small) < len(body) else _PLAIN + body


def unpacked(stored: bytes) -> bytes:
    """The body that was stored."""
    return _of_thread().decompress(stored[1:]) if stored[:1] == _ZSTD else stored[1:]


class _Coder(threading.local):
    """Compressor and decompressor of a thread: neither may be used by two at once."""

    def __init__(self) -> None:
        made = zstandard.ZstdCompressor(
            _LEVEL, dict_data=_dictionary(), write_checksum=False, write_dict_id=False
        )
        self.compress = made.compress
        self.decompress = zstandard.ZstdDecompressor(
            dict_data=_dictionary(), max_window_size=_LARGEST
        ).decompress


@cache
def _of_thread() -> _Coder:
    return _Coder()


@cache
def _dictionary() -> zstandard.ZstdCompressionDict:
    raw = (files("sigma_mem.store") / "lines.zdict").read_bytes()
    return zstandard.ZstdCompressionDict(raw)
