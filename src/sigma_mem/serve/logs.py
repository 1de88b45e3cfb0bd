"""The service's log on standard error, as JSON or text, never with a key in it; and the audit, in a file."""

import json
import logging
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from logging.handlers import WatchedFileHandler
from pathlib import Path

from sigma_mem.errors import InputError
from sigma_mem.serve.keys import Principal

LOG = logging.getLogger("sigma_mem.serve")
_OURS = ("sigma_mem", "uvicorn", "mcp")


class JsonLines(logging.Formatter):
    """A record as one JSON object; ASCII, so that nothing that a client sent can break a line."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


class TextLines(logging.Formatter):
    """A record as a line for people."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        at = datetime.fromtimestamp(record.created, UTC)
        fields = " ".join(f"{key}={json.dumps(value, default=str)}" for key, value in _fields(record).items())
        text = f"{at:%H:%M:%S} {record.levelname.lower()} {json.dumps(record.getMessage())[1:-1]} {fields}"
        return text.rstrip() + (f"\n{self.formatException(record.exc_info)}" if record.exc_info else "")


def _fields(record: logging.LogRecord) -> dict[str, object]:
    fields: dict[str, object] = getattr(record, "fields", {})
    return fields


def start_log(kind: str) -> None:
    """Send our log, and the warnings of the libraries that serve, to standard error."""
    handler: logging.Handler = logging.NullHandler()
    if kind != "off":
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(JsonLines() if kind == "json" else TextLines())
    for name in _OURS:
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.INFO if name == "sigma_mem" else logging.WARNING)


def log_event(message: str, **fields: object) -> None:
    """Log something that happened."""
    LOG.info(message, extra={"fields": fields})


class Audit:
    """Who wrote what: one JSON object a line; the file may be rotated by others while it is open.

    Parameters
    ----------
    path : str, optional
        None to keep no audit.
    """

    def __init__(self, path: str | None, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._handler: WatchedFileHandler | None = None
        if path is not None:
            try:
                Path(path).touch(mode=0o600)
                self._handler = WatchedFileHandler(path, encoding="utf-8")
            except OSError as error:
                raise InputError(f"audit is {path}, which cannot be written: {error.strerror}") from error

    def wrote(self, who: Principal, action: str, namespace: str, **what: object) -> None:
        """Say that somebody wrote something."""
        if self._handler is None:
            return
        line = {"time": self._clock(), "key": who.name, "action": action, "namespace": namespace, **what}
        text = json.dumps(line, ensure_ascii=True, default=str)  # ASCII: no terminal trick in a name
        self._handler.handle(logging.makeLogRecord({"msg": text}))

    def close(self) -> None:
        """Close the file; idempotent."""
        if self._handler is not None:
            self._handler.close()
