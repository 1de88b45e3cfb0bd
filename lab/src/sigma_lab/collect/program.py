"""A command as a peer: one process per question, which reads a JSON line and prints an answer."""

import contextlib
import json
import os
import selectors
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence

from sigma_lab.collect.peers import PeerSettings, command_words
from sigma_lab.collect.requests import Body, Reply
from sigma_mem.errors import InputError

_LARGEST_OUTPUT = 2**20
_KEPT_OF_STDERR = 4096


class Program:
    """Runs the command without a shell; a crash, a hang or silence is a failure, not an answer."""

    def __init__(self, peer: PeerSettings) -> None:
        self._words, self._timeout = command_words(peer), peer.timeout
        if shutil.which(self._words[0]) is None:
            raise InputError(f"peer {peer.name!r}: there is no program {self._words[0]!r}; check the command")
        self._running: set[subprocess.Popen[bytes]] = set()
        self._lock, self._closed = threading.Lock(), False

    def ask(self, requests: Sequence[Body]) -> list[Reply]:
        """One process per request."""
        return [self._ask(request["input"]) for request in requests]

    def close(self) -> None:
        """Kill what runs, with its children."""
        with self._lock:
            self._closed = True
            running = list(self._running)
        for process in running:
            _kill_group(process)

    def _ask(self, question: Body) -> Reply:
        with tempfile.TemporaryFile() as line:
            # A file, not a pipe: a program that never reads its question cannot block us.
            line.write(json.dumps(question, ensure_ascii=False).encode("utf-8", "replace") + b"\n")
            line.seek(0)
            try:
                process = subprocess.Popen(
                    self._words,
                    stdin=line,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    start_new_session=True,
                )
            except OSError as error:
                return Reply(error=f"the program could not be started: {error.strerror or error}", down=True)
        with self._lock:
            self._running.add(process)
        try:
            return Reply(error="the run has ended") if self._closed else self._reply(process)
        finally:
            _kill_group(process)
            with process:  # closes the pipes and waits
                pass
            with self._lock:
                self._running.discard(process)

    def _reply(self, process: subprocess.Popen[bytes]) -> Reply:
        deadline = time.monotonic() + self._timeout
        output, errors, failure = _read_both(process, deadline)
        if failure is None:
            try:
                code = process.wait(max(deadline - time.monotonic(), 0.0))
            except subprocess.TimeoutExpired:
                failure = _LATE
            else:
                failure = _exit_reason(code, errors) if code != 0 else None
        if failure == _LATE:
            failure = f"the program took longer than {self._timeout:g} s"
        text = output.decode("utf-8", "replace").strip()
        if failure is None and not text:
            failure = "the program printed nothing"
        return Reply(text=text) if failure is None else Reply(error=failure)


_LATE = "late"


def _read_both(process: subprocess.Popen[bytes], deadline: float) -> tuple[bytes, bytes, str | None]:
    """Standard output, the end of standard error, and why reading stopped early."""
    output, errors = bytearray(), bytearray()
    with selectors.DefaultSelector() as pipes:
        for pipe, kept in ((process.stdout, output), (process.stderr, errors)):
            if pipe is not None:
                pipes.register(pipe, selectors.EVENT_READ, kept)
        while pipes.get_map():
            ready = pipes.select(max(deadline - time.monotonic(), 0.0))
            if not ready and time.monotonic() >= deadline:
                return bytes(output), bytes(errors), _LATE
            for key, _ in ready:
                chunk = os.read(key.fd, 65536)
                key.data.extend(chunk)
                if not chunk:
                    pipes.unregister(key.fileobj)
            del errors[:-_KEPT_OF_STDERR]
            if len(output) > _LARGEST_OUTPUT:
                return b"", bytes(errors), f"the program printed more than {_LARGEST_OUTPUT} bytes"
    return bytes(output), bytes(errors), None


def _exit_reason(code: int, errors: bytes) -> str:
    said = errors.decode("utf-8", "replace").strip().splitlines()
    how = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
    return f"the program {how}" + (f": {said[-1].strip()[:300]}" if said else "")


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    # Its own session, so what it started goes with it and this process stays. Once it was waited for, its
    # number may belong to another process.
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
