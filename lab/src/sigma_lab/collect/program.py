"""A command as a peer: one process per question, which reads a JSON line and prints an answer."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from typing import IO

from sigma_lab.collect.peers import PeerSettings, command_words
from sigma_lab.collect.requests import Body, Reply
from sigma_mem.errors import InputError

_LARGEST_OUTPUT = 2**20


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
            for process in self._running:
                _kill_group(process)

    def _ask(self, question: Body) -> Reply:
        # Files, not pipes: a program that never reads its question, or never stops writing, cannot block us.
        made = tempfile.TemporaryFile
        with made() as line, made() as out, made() as err:
            line.write(json.dumps(question, ensure_ascii=False).encode("utf-8", "replace") + b"\n")
            line.seek(0)
            try:
                process = subprocess.Popen(
                    self._words, stdin=line, stdout=out, stderr=err, start_new_session=True
                )
            except OSError as error:
                return Reply(error=f"the program could not be started: {error.strerror or error}", down=True)
            with self._lock:
                self._running.add(process)
            try:
                return Reply(error="the run has ended") if self._closed else self._reply(process, out, err)
            finally:
                with self._lock:
                    _kill_group(process)
                    self._running.discard(process)
                process.wait()

    def _reply(self, process: subprocess.Popen[bytes], out: IO[bytes], err: IO[bytes]) -> Reply:
        """What it printed, if it ended well and in time."""
        waited = 0.0
        while (code := _ended(process)) is None:
            if os.fstat(out.fileno()).st_size > _LARGEST_OUTPUT:
                return Reply(error=f"the program printed more than {_LARGEST_OUTPUT} bytes")
            if waited >= self._timeout:
                return Reply(error=f"the program took longer than {self._timeout:g} s")
            waited += _TICK
        if code != 0:
            err.seek(max(os.fstat(err.fileno()).st_size - 4096, 0))
            return Reply(error=_exit_reason(code, err.read()))
        out.seek(0)
        text = out.read(_LARGEST_OUTPUT).decode("utf-8", "replace").strip()
        return Reply(text=text) if text else Reply(error="the program printed nothing")


_TICK = 0.1  # seconds between two looks at what it printed


def _ended(process: subprocess.Popen[bytes]) -> int | None:
    with contextlib.suppress(subprocess.TimeoutExpired):
        return process.wait(_TICK)
    return None


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
