"""A sandbox for Python programs that nobody trusts: no network, no files of ours, limits on all else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sigma_mem.errors import SigmaMemError

_JAIL = Path(__file__).with_name("jail.py")
_LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/nix/store")
_START_SECONDS = 60.0
_REMEDY = "code is graded only where it can be isolated (Linux 5.14 or newer with user namespaces)"


class SandboxError(SigmaMemError):
    """The machine cannot isolate a program, so none was run."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one run of a program may use; ``wall`` is for programs that wait instead of computing."""

    cpu: int = 10  # seconds of each process
    wall: float = 60.0  # seconds
    memory: int = 1 << 30  # bytes of address space of each process, and resident of all together
    processes: int = 16  # and threads
    files: int = 64 << 20  # bytes of all files
    output: int = 8 << 20  # bytes


@dataclass(frozen=True, slots=True)
class Run:
    """How a program ended: ``status`` is ended, time, memory or output; ``code`` its exit code."""

    status: str
    code: int
    stdout: str
    stderr: str

    @property
    def failure(self) -> str:
        """Why the run does not count as finished, in a few words; "" if it does."""
        if self.status != "ended":
            return f"over its limit of {self.status}"
        if self.code == 0:
            return ""
        return (self.stderr.strip().splitlines() or [f"exit code {self.code}"])[-1][:200]


class Sandbox:
    """Runs programs one after the other, each on an empty folder in a world of its own.

    Raises SandboxError where the kernel refuses; `check_isolation` proves that limits hold. One per thread.
    """

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self._process: subprocess.Popen[str] | None = None
        self._asking = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def run(self, files: dict[str, str], main: str, stdin: str = "") -> Run:
        """Run the file ``main`` of ``files``, with ``stdin`` as its standard input."""
        if self._asking:  # interrupted: the result of an earlier program may still come
            self.close()
        if self._process is None:
            self._process = _start(self.limits)
        request = {"files": files, "main": main, "stdin": stdin}
        self._asking = True
        reply = _ask(self._process, json.dumps(request), self.limits.wall + _START_SECONDS)
        self._asking = False
        if reply is None:  # the jail itself has gone; the next run starts another
            self.close()
            return Run("time", -1, "", "")
        return Run(**reply)

    def close(self) -> None:
        """End the process, and with it everything inside."""
        if self._process is not None:
            with suppress(BrokenPipeError), self._process:  # closes its pipes and waits for its end
                self._process.kill()
            self._process = None


def check_isolation(limits: Limits | None = None) -> None:
    """Run a program that tries to break out; raise SandboxError unless every try fails."""
    with Sandbox(limits) as sandbox:
        files = {"main.py": _PROBE.format(file=str(_JAIL), processes=sandbox.limits.processes)}
        run = sandbox.run(files, "main.py")
    open_doors = run.stdout.split() if run.failure == "" and run.stdout.endswith("done\n") else ["everything"]
    if open_doors != ["done"]:
        raise SandboxError(
            f"this machine does not keep a program from: {', '.join(open_doors[:-1])}; {_REMEDY}"
        )


_PROBE = """
import os, socket, time
status = open("/proc/self/status").read()
if os.path.exists({file!r}): print("files")
if "CapEff:\\t0000000000000000" not in status: print("privileges")
if "Seccomp:\\t2" not in status: print("system-calls")
if len(open("/proc/net/dev").readlines()) > 3: print("network")
if os.getpid() > 100: print("processes-outside")
try:
    for _ in range({processes} + 1):
        if os.fork() == 0:
            time.sleep(5)
            os._exit(0)
    print("forking")
except OSError:
    pass
print("done")
"""


def _start(limits: Limits) -> subprocess.Popen[str]:
    if not sys.platform.startswith("linux"):
        raise SandboxError(f"this is {sys.platform}; {_REMEDY}")
    python = os.path.realpath(sys.executable)
    readable = [path for path in (sys.base_prefix, *_LIBRARIES) if os.path.isdir(path)]
    settings = json.dumps({**asdict(limits), "python": python, "readable": readable})
    process = subprocess.Popen(
        [python, "-I", "-S", str(_JAIL), settings],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        encoding="utf-8",
    )
    reply = _ask(process, None, _START_SECONDS)
    if reply is None or reply["status"] != "ready":
        process.kill()
        with process:
            pass
        why = "its setup ended without a word" if reply is None else reply["why"]
        raise SandboxError(f"this machine cannot isolate a program ({why}); {_REMEDY}")
    return process


def _ask(process: subprocess.Popen[str], request: str | None, wait: float) -> dict[str, Any] | None:
    """The reply to a request; None if the process has ended, as it must after ``wait`` seconds."""
    if process.stdin is None or process.stdout is None:
        return None
    clock = threading.Timer(wait, process.kill)
    clock.start()
    try:
        if request is not None:
            process.stdin.write(request + "\n")
            process.stdin.flush()
        line = process.stdout.readline()
    except BrokenPipeError:
        return None
    finally:
        clock.cancel()
    reply: dict[str, Any] | None = json.loads(line) if line.endswith("\n") else None
    return reply
