"""Who wrote what: one JSON object a line, in a file of its own."""

import json
import logging
import time
from collections.abc import Callable
from logging.handlers import WatchedFileHandler
from pathlib import Path

from sigma_mem.errors import InputError
from sigma_mem.serve.keys import Principal


class Audit:
    """Appends a line for every write; the file may be rotated by others while it is open.

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
