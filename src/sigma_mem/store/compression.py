"""Bodies of records in fewer bytes: zstd with a dictionary of what lines have in common.

The dictionary is part of the format, and made by ``benchmarks/line_dictionary.py``. It holds no line of a
memory: a line that is forgotten must not be needed to read another.
"""

import sys
import threading
from functools import cache
from importlib.resources import files

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_PLAIN, _ZSTD = b"\0", b"\1"  # first byte of what is stored
_OPTIONS: dict[int, int] = {
    zstd.CompressionParameter.compression_level: 3,
    zstd.CompressionParameter.checksum_flag: 0,
    zstd.CompressionParameter.dict_id_flag: 0,
}


def packed(body: bytes) -> bytes:
    """A body as it is stored."""
    small = _of_thread().compressor.compress(body, zstd.ZstdCompressor.FLUSH_FRAME)
    return _ZSTD + small if len(small) < len(body) else _PLAIN + body


def unpacked(stored: bytes) -> bytes:
    """The body that was stored."""
    return zstd.decompress(stored[1:], _dictionary()) if stored[:1] == _ZSTD else stored[1:]


class _Coder(threading.local):
    """The compressor of a thread: two may not use one at once."""

    def __init__(self) -> None:
        self.compressor = zstd.ZstdCompressor(options=_OPTIONS, zstd_dict=_dictionary())


@cache
def _of_thread() -> _Coder:
    return _Coder()


@cache
def _dictionary() -> zstd.ZstdDict:
    return zstd.ZstdDict((files("sigma_mem.store") / "lines.zdict").read_bytes())
