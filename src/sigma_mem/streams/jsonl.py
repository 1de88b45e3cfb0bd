"""Streams as files of JSON lines: one event per line, plain or compressed, every line checked."""

import codecs
import gzip
import json
import math
import re
import zlib
from collections.abc import Iterator, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from sigma_mem.answers.canon import canon
from sigma_mem.errors import SigmaMemError, StreamError
from sigma_mem.events import Answer, Event
from sigma_mem.extras import require
from sigma_mem.files import replace_file
from sigma_mem.streams.stream import Stream, to_line

_WRONG_PATH = (FileNotFoundError, NotADirectoryError, IsADirectoryError, PermissionError)
_RATIO = 100  # of unpacked to packed bytes; text has 3 to 30
_ALWAYS = 1 << 26  # bytes that are unpacked whatever the ratio
_PIECE = 1 << 20  # bytes that are unpacked at once
_FEED = 1 << 8  # bytes of a .zst file that are read at once: each may become 32 kB
_ENDINGS = re.compile(r"(\.jsonl|\.ndjson|\.json)?(\.gz|\.zst)?$")


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

    Every line is read and checked before anything is returned, also the lines that a selection (see
    :meth:`Stream.select`) then leaves out. Peers keep the order in which the file first names them. The
    stream's name is by default the file's, without its endings. StreamError names the file and the line.
    """
    file = Path(fspath(path))
    events = _read(file)
    names = tuple(dict.fromkeys(peer for event in events for peer in event.answers))
    plain = _ENDINGS.sub("", file.name) or file.name
    stream = Stream(plain if name is None else name, names, tuple(events))
    return stream.select(peers=peers, domains=domains, datasets=datasets, seed=seed, limit=limit)


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
    """What a file holds, decompressed where its name says so (``.gz``, ``.zst``)."""
    try:
        packed = file.read_bytes()
        if file.suffix == ".gz":
            return _joined(_decompress_gz(packed), len(packed), file)
        return _joined(_decompress_zst(packed), len(packed), file) if file.suffix == ".zst" else packed
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
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


def _joined(parts: Iterator[bytes], packed: int, file: Path) -> bytes:
    """What was packed; StreamError where it grows as no text does."""
    most, size, out = most_unpacked(packed), 0, []
    for part in parts:
        size += len(part)
        if size > most:
            raise too_large(file, packed, most)
        out.append(part)
    return b"".join(out)


def _decompress_gz(packed: bytes) -> Iterator[bytes]:
    """Decompress every member, a piece at a time."""
    while packed:
        member = zlib.decompressobj(wbits=31)
        yield member.decompress(packed, _PIECE)
        while not member.eof and (piece := member.decompress(member.unconsumed_tail, _PIECE)):
            yield piece
        if not member.eof:
            raise EOFError("the last gzip member is not complete")
        packed = member.unused_data.lstrip(b"\0")


def _decompress_zst(packed: bytes) -> Iterator[bytes]:
    """Decompress every frame a piece at a time; zstandard's own reader ends silently where a file is cut."""
    zstandard = _zstandard()
    while packed:
        frame = zstandard.ZstdDecompressor().decompressobj()
        at = 0
        while at < len(packed) and not frame.eof:
            try:
                yield frame.decompress(packed[at : at + _FEED])
            except zstandard.ZstdError as error:
                raise EOFError(str(error)) from error
            at += _FEED
        if not frame.eof:
            raise EOFError("the last zstd frame is not complete")
        packed = frame.unused_data + packed[at:]


def _compress(data: bytes, target: Path) -> bytes:
    if target.suffix == ".gz":
        return gzip.compress(data, mtime=0)  # no date in the header: the same stream gives the same bytes
    if target.suffix == ".zst":
        packed: bytes = _zstandard().ZstdCompressor(level=10, write_checksum=True).compress(data)
        return packed
    return data


def _zstandard() -> Any:
    return require("zstandard", extra="streams", purpose="a .zst file")


# --- one event, one line ---


def event_from_line(line: bytes) -> Event:
    """Read one event from a line of UTF-8 JSON, or raise StreamError.

    ``id``, ``question`` and ``answers`` are required. Labels are true, false or a number in
    [−1, 1]; a peer without a label, or with null, is unlabelled. An answer without a ``canon``
    field gets the canon of its text; a recorded null stays null. ``costs`` and ``latency`` map peers to
    numbers, 0 or more, or null. Other fields are ignored.
    """
    try:
        record = json.loads(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise StreamError(f"byte {error.start} is not UTF-8; write the file as UTF-8") from error
    except json.JSONDecodeError as error:
        raise StreamError(f"not JSON ({error.msg} at column {error.colno})") from error
    except RecursionError as error:
        raise StreamError("JSON is nested too deeply; expected one event object") from error
    if not isinstance(record, dict):
        raise StreamError(f"got {_kind(record)}; expected one JSON object per line")
    try:
        if b"\\ud" in line or b"\\uD" in line:
            json.dumps(record, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:  # it can be neither written nor encoded
        raise StreamError("half a surrogate pair (\\ud800 … \\udfff) in a string; remove it") from error
    event = Event(
        id=_text(record, "id"),
        question=_text(record, "question"),
        answers=(answers := _answers(record.get("answers"))),
        correct=_labels(record.get("correct"), answers),
        domain=_text(record, "domain", ""),
        dataset=_text(record, "dataset", ""),
        reference=record.get("reference"),
        costs=_amounts(record, "costs", answers),
        latency=_amounts(record, "latency", answers),
    )
    if not event.id:
        raise StreamError('"id" is empty; every event needs an id of its own')
    if event.reference is not None and not isinstance(event.reference, str):
        raise StreamError(f'"reference" is {_kind(event.reference)}; expected a string or null')
    return event


def _text(record: dict[str, Any], key: str, default: str | None = None) -> str:
    value = record.get(key, default)
    if not isinstance(value, str):
        got = _kind(value) if key in record else "missing"
        raise StreamError(f'"{key}" is {got}; expected a string')
    return value


def _answers(given: Any) -> dict[str, Answer]:
    if not isinstance(given, dict) or not given:
        raise StreamError(f'"answers" is {_kind(given)}; expected an object with at least one peer')
    answers: dict[str, Answer] = {}
    for peer, answer in given.items():
        if not peer:
            raise StreamError("a peer has an empty name; name every peer")
        if not isinstance(answer, dict) or not isinstance(text := answer.get("text"), str):
            raise StreamError(f'the answer of {peer!r} must be an object like {{"text": "…", "canon": "…"}}')
        form = answer["canon"] if "canon" in answer else canon(text)
        if form is not None and not isinstance(form, str):
            raise StreamError(f"the canon of {peer!r} is {_kind(form)}; expected a string or null")
        answers[peer] = Answer(text, form)
    return answers


def _labels(given: Any, answers: dict[str, Answer]) -> dict[str, float]:
    if given is None:
        return {}
    if not isinstance(given, dict):
        raise StreamError(f'"correct" is {_kind(given)}; expected an object from peer to label')
    labels: dict[str, float] = {}
    for peer, label in given.items():
        if peer not in answers:
            raise StreamError(f'{peer!r} has a label but no answer; add it to "answers" or drop the label')
        if isinstance(label, bool):
            labels[peer] = 1.0 if label else -1.0
        elif isinstance(label, int | float) and -1.0 <= label <= 1.0:  # NaN fails the comparison
            labels[peer] = float(label)
        elif label is not None:
            got = f"the label of {peer!r} is {label!r}"
            raise StreamError(f"{got}; expected true, false or a number in [-1, 1]")
    return labels


def _amounts(record: dict[str, Any], key: str, answers: dict[str, Answer]) -> dict[str, float]:
    given = record.get(key)
    if given is None:
        return {}
    if not isinstance(given, dict):
        raise StreamError(f'"{key}" is {_kind(given)}; expected an object from peer to number')
    for peer, amount in given.items():
        if peer not in answers:
            raise StreamError(f'{peer!r} has {key} but no answer; add it to "answers" or drop the number')
        number = isinstance(amount, int | float) and not isinstance(amount, bool)
        if amount is not None and not (number and 0.0 <= amount < math.inf):
            raise StreamError(f"{key} of {peer!r} are {amount!r}; expected a number, 0 or more")
    return {peer: float(amount) for peer, amount in given.items() if amount is not None}


def _kind(value: object) -> str:
    if value == {}:
        return "an empty object"
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean"}
    return "null or missing" if value is None else names.get(type(value), "a number")
