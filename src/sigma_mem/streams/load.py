"""Load a recorded stream: all of it or nothing, with errors that name file and line."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from os import PathLike, fspath
from pathlib import Path
from typing import IO, Any

from sigma_mem.errors import MissingExtraError, StreamError
from sigma_mem.events import Event
from sigma_mem.streams.lines import LineError, from_line
from sigma_mem.streams.stream import Stream

__all__ = ["import_zstandard", "load_stream", "opened"]


def load_stream(
    path: str | PathLike[str],
    *,
    peers: Sequence[str] | None = None,
    domains: Sequence[str] | None = None,
    datasets: Sequence[str] | None = None,
    seed: int | None = None,
    limit: int | None = None,
    name: str | None = None,
) -> Stream:
    """Load a JSON-lines stream, plain or compressed (``.gz``, ``.zst``), and select from it.

    Every line is read and checked before anything is returned, also the lines that a
    selection then leaves out. Peers keep the order in which the file first names them.

    Parameters
    ----------
    path : str or path
        The file.
    peers, domains, datasets, seed, limit
        As in :meth:`Stream.select`; by default everything, in the order of the file.
    name : str, optional
        By default the file's name without its endings.

    Raises
    ------
    StreamError
        When the file cannot be read, holds no event, or a line is not an event or repeats an id.
    InputError
        When the selection names what the stream does not hold.
    MissingExtraError
        For a ``.zst`` file without the extra ``streams``.
    """
    file = Path(fspath(path))
    events = _read(file)
    names = tuple(dict.fromkeys(peer for event in events for peer in event.answers))
    stream = Stream(name if name is not None else _plain_name(file), names, tuple(events))
    return stream.select(peers=peers, domains=domains, datasets=datasets, seed=seed, limit=limit)


def _plain_name(file: Path) -> str:
    name = file.name
    for ending in (".gz", ".zst", ".jsonl", ".ndjson", ".json"):
        name = name.removesuffix(ending)
    return name or file.name


def _read(file: Path) -> list[Event]:
    events: list[Event] = []
    seen: dict[str, int] = {}
    number = 0
    try:
        with opened(file) as lines:
            for number, line in enumerate(lines, start=1):
                if number == 1:
                    line = line.removeprefix(b"\xef\xbb\xbf")
                if line.isspace() or not line:
                    continue
                event = from_line(line)
                if (before := seen.setdefault(event.id, number)) != number:
                    raise LineError(f"id {event.id!r} was already on line {before}; ids must differ")
                events.append(event)
    except LineError as error:
        raise StreamError(f"{file}, line {number}: {error}") from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise StreamError(
            f"{file}, after line {number}: damaged or cut off ({error}); fetch it again"
        ) from error
    except OSError as error:
        raise StreamError(f"{file}: cannot be read ({error.strerror or error}); check the path") from error
    if not events:
        raise StreamError(f"{file}: holds no event; expected one JSON object per line")
    return events


@contextmanager
def opened(file: Path) -> Iterator[IO[bytes]]:
    """Open a file for reading bytes, through gzip or zstd where its name says so."""
    if file.suffix == ".gz":
        with gzip.open(file, "rb") as lines:
            yield lines  # type: ignore[misc]  # GzipFile is not typed as IO[bytes]
    elif file.suffix == ".zst":
        yield io.BytesIO(_unpack_zst(file.read_bytes()))
    else:
        with file.open("rb") as lines:
            yield lines


def _unpack_zst(packed: bytes) -> bytes:
    """Decompress every frame; zstandard's own reader ends silently where a file is cut off."""
    zstandard = import_zstandard()
    parts: list[bytes] = []
    while packed:
        frame = zstandard.ZstdDecompressor().decompressobj()
        try:
            parts.append(frame.decompress(packed))
        except zstandard.ZstdError as error:
            raise EOFError(str(error)) from error
        if not frame.eof:
            raise EOFError("the last zstd frame is not complete")
        packed = frame.unused_data
    return b"".join(parts)


def import_zstandard() -> Any:
    """Import zstandard, or say which extra brings it."""
    try:
        import zstandard
    except ImportError as error:
        raise MissingExtraError(
            ".zst needs the package zstandard; run: pip install 'sigma-mem[streams]', or use .gz"
        ) from error
    return zstandard
