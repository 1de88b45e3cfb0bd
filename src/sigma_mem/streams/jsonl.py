"""Streams as files of JSON lines: one event per line, plain or compressed, every line checked."""

import codecs
import gzip
import re
import sys
import zlib
from collections.abc import Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Annotated, Any

import msgspec

from sigma_mem.answers.canon import canon
from sigma_mem.errors import SigmaMemError, StreamError
from sigma_mem.events import Answer, Event
from sigma_mem.files import replace_file
from sigma_mem.streams.stream import Stream, to_line

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_WRONG_PATH = (FileNotFoundError, NotADirectoryError, IsADirectoryError, PermissionError)
_RATIO = 100  # of unpacked to packed bytes; text has 3 to 30
_ALWAYS = 1 << 26  # bytes that are unpacked whatever the ratio
_ENDINGS = re.compile(r"(\.jsonl|\.ndjson|\.json)?(\.gz|\.zst)?$")


def load_stream(
    path: str | PathLike[str],
    *,
    peers: Sequence[str] | None = None,
    seed: int | None = None,
    limit: int | None = None,
) -> Stream:
    """Load a JSON-lines stream, plain or compressed (``.gz``, ``.zst``), and select from it.

    Every line is read and checked before anything is returned, also the lines that a selection (see
    :meth:`Stream.select`) then leaves out. Peers keep the order in which the file first names them. The
    stream's name is the file's, without its endings. StreamError names the file and the line.
    """
    file = Path(fspath(path))
    events = _read(file)
    names = tuple(dict.fromkeys(peer for event in events for peer in event.answers))
    plain = _ENDINGS.sub("", file.name) or file.name
    return Stream(plain, names, tuple(events)).select(peers=peers, seed=seed, limit=limit)


def save_stream(stream: Stream, path: str | PathLike[str]) -> Path:
    """Write ``stream`` to ``path`` (compressed for ``.gz`` and ``.zst``) and return the path.

    A reader sees the old file or the whole new one. The same stream gives the same bytes.
    """
    target = Path(fspath(path))
    try:
        with replace_file(target) as temporary:
            temporary.write_bytes(_compress("".join(map(to_line, stream)).encode(), target))
    except OSError as error:
        raise file_error(target, "write", error) from error
    return target


def read_file(file: Path) -> bytes:
    """What a file holds, decompressed by its ending (``.gz``, ``.zst``)."""
    unpack: Any = {".gz": gzip.open, ".zst": zstd.open}.get(file.suffix)
    try:
        if unpack is None:
            return file.read_bytes()
        packed = file.stat().st_size
        most = most_unpacked(packed)
        with unpack(file) as stream:
            data: bytes = stream.read(most + 1)
        if len(data) > most:
            raise too_large(file, packed, most)
        return data
    except (EOFError, zlib.error, gzip.BadGzipFile, zstd.ZstdError) as error:
        raise StreamError(f"{file}: damaged or cut off ({error}); fetch it again") from error
    except OSError as error:
        raise file_error(file, "read", error) from error


def file_error(file: Path, doing: str, error: OSError) -> SigmaMemError:
    """A wrong path is bad input; a disk that fails is not."""
    what = f"cannot {doing} {file}: {error.strerror or error}"
    if isinstance(error, _WRONG_PATH):
        return StreamError(f"{what}; check the path")
    return SigmaMemError(f"{what}; check the disk")


def _read(file: Path) -> list[Event]:
    events: list[Event] = []
    seen: dict[str, int] = {}
    for number, line in enumerate(read_file(file).removeprefix(codecs.BOM_UTF8).split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            event = event_from_line(line)
        except StreamError as error:
            raise StreamError(f"{file}, line {number}: {error}") from error
        if event.id in seen:
            before = f"id {event.id!r} was already on line {seen[event.id]}"
            raise StreamError(f"{file}, line {number}: {before}; ids must differ")
        seen[event.id] = number
        events.append(event)
    if not events:
        raise StreamError(f"{file}: holds no event; expected one JSON object per line")
    return events


def most_unpacked(packed: int) -> int:
    """How many bytes a compressed file of this size may hold."""
    return max(_RATIO * packed, _ALWAYS)


def too_large(file: Path, packed: int, most: int) -> StreamError:
    """The error for a file that grows as no text does."""
    return StreamError(
        f"{file}: its {packed} bytes hold more than {most} unpacked, as no stream does; expected at "
        f"most {_RATIO} times as many. Unpack it first if it is right"
    )


def _compress(data: bytes, target: Path) -> bytes:
    if target.suffix == ".gz":
        return gzip.compress(data, mtime=0)  # no date in the header: the same stream gives the same bytes
    if target.suffix == ".zst":
        parameters = zstd.CompressionParameter
        return zstd.compress(data, options={parameters.compression_level: 10, parameters.checksum_flag: 1})
    return data


# --- one event, one line ---

_Name = Annotated[str, msgspec.Meta(min_length=1)]
_Label = bool | Annotated[float, msgspec.Meta(ge=-1, le=1)] | None
_Amount = Annotated[float, msgspec.Meta(ge=0)] | None


class _AnswerRecord(msgspec.Struct):
    text: str
    canon: str | msgspec.UnsetType | None = msgspec.UNSET


class _EventRecord(msgspec.Struct):
    id: _Name
    question: str
    answers: Annotated[dict[_Name, _AnswerRecord], msgspec.Meta(min_length=1)]
    correct: dict[str, _Label] | None = None
    domain: str = ""
    dataset: str = ""
    reference: str | None = None
    costs: dict[str, _Amount] | None = None
    latency: dict[str, _Amount] | None = None


_decoder = msgspec.json.Decoder(_EventRecord)


def event_from_line(line: bytes) -> Event:
    """Read one event from a line of UTF-8 JSON, or raise StreamError.

    ``id``, ``question`` and ``answers`` are required. Labels are true, false or a number in
    [−1, 1]; a peer without a label, or with null, is unlabelled. An answer without a ``canon``
    field gets the canon of its text; a recorded null stays null. ``costs`` and ``latency`` map peers to
    numbers, 0 or more, or null. Other fields are ignored.
    """
    try:
        record = _decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise StreamError(f"{error}; expected one event in JSON, as UTF-8") from error
    return Event(
        id=record.id,
        question=record.question,
        answers={
            peer: Answer(a.text, canon(a.text) if isinstance(a.canon, msgspec.UnsetType) else a.canon)
            for peer, a in record.answers.items()
        },
        correct={
            peer: (1.0 if label else -1.0) if isinstance(label, bool) else label
            for peer, label in _of_answers(record, "correct").items()
        },
        domain=record.domain,
        dataset=record.dataset,
        reference=record.reference,
        costs=_of_answers(record, "costs"),
        latency=_of_answers(record, "latency"),
    )


def _of_answers(record: _EventRecord, key: str) -> dict[str, float]:
    """What is given for peers that answered, without nulls; StreamError for another peer."""
    given = getattr(record, key) or {}
    for peer in given:
        if peer not in record.answers:
            raise StreamError(f'{peer!r} is in "{key}" but has no answer; add it to "answers" or drop it')
    return {peer: value for peer, value in given.items() if value is not None}
