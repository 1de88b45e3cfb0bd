"""The service's log: one line an event on standard error, as JSON or as text, never with a key in it."""

import json
import logging
import sys
from datetime import UTC, datetime

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
