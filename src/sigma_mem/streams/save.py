"""Save a stream as JSON lines: the file appears whole or not at all."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from os import PathLike, fspath
from pathlib import Path
from secrets import token_hex
from typing import IO

from sigma_mem.errors import StreamError
from sigma_mem.streams.lines import to_line
from sigma_mem.streams.load import import_zstandard
from sigma_mem.streams.stream import Stream

__all__ = ["save_stream"]


def save_stream(stream: Stream, path: str | PathLike[str]) -> Path:
    """Write ``stream`` to ``path`` (compressed for ``.gz`` and ``.zst``) and return the path.

    The lines go to a temporary file beside the target, which replaces it once it is on
    disk: a reader sees the old file or the new one. The same stream gives the same bytes.

    Raises
    ------
    StreamError
        When the file cannot be written; an older file is left as it was.
    """
    target = Path(fspath(path))
    beside = target.with_name(f".{target.name}.{token_hex(8)}")
    try:
        with beside.open("xb") as raw:
            with _packed(raw, target.suffix) as out:
                for event in stream:
                    out.write(to_line(event).encode())
            raw.flush()
            os.fsync(raw.fileno())
        beside.replace(target)
    except OSError as error:
        raise StreamError(f"{target}: cannot be written ({error.strerror}); nothing was changed") from error
    finally:
        with suppress(OSError):
            beside.unlink()
    return target


@contextmanager
def _packed(raw: IO[bytes], suffix: str) -> Iterator[IO[bytes]]:
    if suffix == ".gz":
        # no name and no date in the header: the same stream gives the same bytes
        with gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0) as out:
            yield out  # type: ignore[misc]  # GzipFile is not typed as IO[bytes]
    elif suffix == ".zst":
        compressor = import_zstandard().ZstdCompressor(level=10, write_checksum=True)
        with compressor.stream_writer(raw, closefd=False) as out:
            yield out
    else:
        yield raw
