"""math-verify in a process of its own, which can be ended when an answer takes too long.

math-verify's own timeouts need signals, which work in the main thread only and do not
interrupt a long power of integers; and its import takes a second. A process does neither.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from importlib.util import find_spec

from sigma_mem.errors import MissingExtraError

__all__ = ["MathWorker"]

_START = 60.0  # seconds: the first answer waits for the import of sympy


class MathWorker:
    """Parses and simplifies mathematical answers, one at a time; safe to share between threads.

    Parameters
    ----------
    timeout : float
        Seconds for one answer. After that the process is ended, and a new one started for the next.
    """

    def __init__(self, timeout: float = 3.0) -> None:
        if find_spec("math_verify") is None:
            raise MissingExtraError(
                "LaTeX answers need the package math-verify; run: pip install 'sigma-mem[streams]'"
            )
        self._timeout = timeout
        self._lock = threading.Lock()
        self._owner = os.getpid()
        self._process: subprocess.Popen[str] | None = None
        self._replies: queue.SimpleQueue[str] = queue.SimpleQueue()

    def simplify(self, answer: str) -> str | None:
        """Return one canonical form for all equal answers; None if unreadable or too slow."""
        with self._lock:
            wait = self._timeout
            if os.getpid() != self._owner:  # after a fork: the process belongs to the parent
                self._process, self._owner = None, os.getpid()
            if self._process is None or self._process.poll() is not None:
                self._start()
                wait += _START
            reply = self._ask(answer, wait)
        if not reply:
            return None
        form: str | None = json.loads(reply)
        return form

    def close(self) -> None:
        """End the process."""
        with self._lock:
            self._end()

    def _start(self) -> None:
        self._replies = queue.SimpleQueue()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "sigma_mem.answers.simplify", str(int(self._timeout) + 5)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
        )
        threading.Thread(target=_forward, args=(self._process, self._replies), daemon=True).start()

    def _ask(self, answer: str, wait: float) -> str:
        process = self._process
        if process is None or process.stdin is None:
            return ""
        try:
            process.stdin.write(json.dumps(answer) + "\n")
            process.stdin.flush()
            reply = self._replies.get(timeout=wait)
        except (queue.Empty, BrokenPipeError):
            reply = ""
        if not reply:
            self._end()
        return reply

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            if self._process.stdin is not None:
                self._process.stdin.close()
            self._process = None


def _forward(process: subprocess.Popen[str], replies: queue.SimpleQueue[str]) -> None:
    """Pass every line on; an empty one says that the process has ended."""
    if process.stdout is not None:
        with process.stdout as lines:
            for line in lines:
                replies.put(line)
    replies.put("")
