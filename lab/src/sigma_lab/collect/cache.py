"""Answers by the key of their request, in an append-only file: what was paid for once is never lost.

One JSON line per answer or failure; the last line of a key counts. A line is on the disk before it counts as
recorded, and a line that a kill or a full disk left unfinished is cut off when the file is opened again.
"""

import contextlib
import os
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from sigma_lab.collect.requests import Reply
from sigma_mem.errors import InputError, SigmaMemError
from sigma_mem.streams.jsonl import file_error

try:
    import fcntl
except ImportError:  # a system without flock: nothing keeps two runs apart there
    fcntl = None  # type: ignore[assignment]


class _Line(msgspec.Struct):
    key: str
    at: str
    reply: Reply


class AnswerCache:
    """Replies by key. One process at a time may hold the file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise file_error(path, "write", error) from error
        try:
            self._lock()
            self.replies = self._load()
        except BaseException:
            os.close(self._fd)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._fd)

    def add(self, found: Iterable[tuple[str, Reply]]) -> None:
        """Append replies; they are on the disk when this returns."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        lines = [_Line(key, now, reply) for key, reply in found]
        if not lines:
            return
        data = memoryview(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
        try:
            while data:
                data = data[os.write(self._fd, data) :]
            os.fsync(self._fd)
        except OSError as error:
            raise SigmaMemError(
                f"cannot write the answers to {self._path}: {error.strerror}; make room and run the command "
                "again: what is recorded stays"
            ) from error
        self.replies.update((line.key, (now, line.reply)) for line in lines)

    def adopt(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Add records of a finished file that the cache does not have: its own file may be gone."""
        for record in records:
            key = record.get("key")
            if isinstance(key, str) and key not in self.replies:
                self.replies[key] = (str(record.get("at")), msgspec.convert(record, Reply))

    def _lock(self) -> None:
        if fcntl is not None:
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise InputError(
                    f"{self._path} is in use by another run; wait for it, or choose another --cache"
                ) from error

    def _load(self) -> dict[str, tuple[str, Reply]]:
        data = self._path.read_bytes()
        whole, newline, rest = data.rpartition(b"\n")
        if rest:  # a line without its end: all of it, or nothing
            if _parsed(rest) is None:
                os.ftruncate(self._fd, len(whole) + len(newline))
            else:
                os.write(self._fd, b"\n")
                whole, newline = data, b"\n"
            os.fsync(self._fd)
        replies: dict[str, tuple[str, Reply]] = {}
        for number, line in enumerate(whole.split(b"\n") if newline else [], start=1):
            found = _parsed(line)
            if found is None:
                raise InputError(
                    f"{self._path}, line {number}: damaged; expected a recorded answer. Delete that "
                    "line to ask its question again, or restore the file"
                )
            replies[found.key] = (found.at, found.reply)
        return replies


def _parsed(line: bytes) -> _Line | None:
    with contextlib.suppress(msgspec.DecodeError):
        return msgspec.json.decode(line, type=_Line)
    return None
