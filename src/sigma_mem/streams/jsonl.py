"""Streams as files of JSON lines: one event per line, plain or compressed, every line checked."""

import gzip
import io
import json
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from os import PathLike, fspath
from pathlib import Path
from typing import IO, Any

from sigma_mem.answers.canon import canon
from sigma_mem.errors import SigmaMemError, StreamError
from sigma_mem.events import Answer, Event
from sigma_mem.extras import require
from sigma_mem.files import replace_file
from sigma_mem.streams.stream import Stream, to_line

DAMAGED = (EOFError, zlib.error, gzip.BadGzipFile)
_WRONG_PATH = (FileNotFoundError, NotADirectoryError, IsADirectoryError, PermissionError)


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
    stream = Stream(name if name is not None else _plain_name(file), names, tuple(events))
    return stream.select(peers=peers, domains=domains, datasets=datasets, seed=seed, limit=limit)


def save_stream(stream: Stream, path: str | PathLike[str]) -> Path:
    """Write ``stream`` to ``path`` (compressed for ``.gz`` and ``.zst``) and return the path.

    A reader sees the old file or the whole new one. The same stream gives the same bytes.
    """
    target = Path(fspath(path))
    try:
        with replace_file(target) as temporary, temporary.open("wb") as raw, _compress(raw, target) as out:
            for event in stream:
                out.write(to_line(event).encode())
    except OSError as error:
        raise file_error(target, "write", error) from error
    return target


@contextmanager
def open_file(file: Path) -> Iterator[IO[bytes]]:
    """Open a file for reading bytes, through gzip or zstd where its name says so."""
    if file.suffix == ".gz":
        with gzip.open(file, "rb") as lines:
            yield lines  # type: ignore[misc]  # GzipFile is not typed as IO[bytes]
    elif file.suffix == ".zst":
        yield io.BytesIO(_decompress_zst(file.read_bytes()))
    else:
        with file.open("rb") as lines:
            yield lines


def file_error(file: Path, doing: str, error: OSError) -> SigmaMemError:
    """A wrong path is bad input; a disk that fails is not."""
    kind, remedy = (
        (StreamError, "the path") if isinstance(error, _WRONG_PATH) else (SigmaMemError, "the disk")
    )
    return kind(f"cannot {doing} {file}: {error.strerror or error}; check {remedy}")


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
        with open_file(file) as lines:
            for number, line in enumerate(lines, start=1):
                if number == 1:
                    line = line.removeprefix(b"\xef\xbb\xbf")
                if line.isspace() or not line:
                    continue
                event = event_from_line(line)
                if (before := seen.setdefault(event.id, number)) != number:
                    raise StreamError(f"id {event.id!r} was already on line {before}; ids must differ")
                events.append(event)
    except StreamError as error:
        raise StreamError(f"{file}, line {number}: {error}") from error
    except DAMAGED as error:
        raise StreamError(
            f"{file}, after line {number}: damaged or cut off ({error}); fetch it again"
        ) from error
    except OSError as error:
        raise file_error(file, "read", error) from error
    if not events:
        raise StreamError(f"{file}: holds no event; expected one JSON object per line")
    return events


def _decompress_zst(packed: bytes) -> bytes:
    """Decompress every frame; zstandard's own reader ends silently where a file is cut off."""
    zstandard = _zstandard()
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


@contextmanager
def _compress(raw: IO[bytes], target: Path) -> Iterator[IO[bytes]]:
    if target.suffix == ".gz":
        # no name and no date in the header: the same stream gives the same bytes
        with gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0) as out:
            yield out  # type: ignore[misc]  # GzipFile is not typed as IO[bytes]
    elif target.suffix == ".zst":
        compressor = _zstandard().ZstdCompressor(level=10, write_checksum=True)
        with compressor.stream_writer(raw, closefd=False) as out:
            yield out
    else:
        yield raw


def _zstandard() -> Any:
    return require("zstandard", extra="streams", purpose="a .zst file")


# --- one event, one line ---


def event_from_line(line: bytes) -> Event:
    """Read one event from a line of UTF-8 JSON, or raise StreamError.

    ``id``, ``question`` and ``answers`` are required. Labels are true, false or a number in
    [−1, 1]; a peer without a label, or with null, is unlabelled. An answer without a ``canon``
    field gets the canon of its text; a recorded null stays null. Other fields are ignored.

    Examples
    --------
    >>> line = b'{"id": "q1", "question": "2+2?", "answers": {"a": {"text": "4", "canon": "4"}},'
    >>> event_from_line(line + b' "correct": {"a": true}}').correct
    {'a': 1.0}
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
    if b"\\ud" in line or b"\\uD" in line:
        _refuse_half_surrogates(record)
    event = Event(
        id=_text(record, "id"),
        question=_text(record, "question"),
        answers=(answers := _answers(record.get("answers"))),
        correct=_labels(record.get("correct"), answers),
        domain=_text(record, "domain", ""),
        dataset=_text(record, "dataset", ""),
        reference=record.get("reference"),
    )
    if not event.id:
        raise StreamError('"id" is empty; every event needs an id of its own')
    if event.reference is not None and not isinstance(event.reference, str):
        raise StreamError(f'"reference" is {_kind(event.reference)}; expected a string or null')
    return event


def _text(record: dict[str, Any], key: str, default: str | None = None) -> str:
    value = record.get(key, default)
    if isinstance(value, str):
        return value
    got = _kind(value) if key in record else "missing"
    raise StreamError(f'"{key}" is {got}; expected a string')


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
            raise StreamError(
                f"the label of {peer!r} is {label!r}; expected true, false or a number in [-1, 1]"
            )
    return labels


def _refuse_half_surrogates(value: Any) -> None:
    """Half a surrogate pair can be neither written nor encoded."""
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError as error:
        raise StreamError("half a surrogate pair (\\ud800 … \\udfff) in a string; remove it") from error


def _kind(value: object) -> str:
    if value == {}:
        return "an empty object"
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean"}
    return "null or missing" if value is None else names.get(type(value), "a number")
