"""A sandbox for Python programs that nobody trusts: no network, no files of ours, limits on all else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import mkdtemp

from sigma_mem.errors import SigmaMemError

_JAIL = Path(__file__).with_name("jail.py")
_LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/nix/store")
_START_SECONDS = 60.0
_OWN_MEMORY = 48 << 20  # of the jail's three processes, in addition to the program's
_REMEDY = "code is graded only if it can be isolated (Linux 5.14 or newer with user namespaces)"


class SandboxError(SigmaMemError):
    """The machine cannot isolate a program, so none was run."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one run of a program may use; ``wall`` is for programs that wait instead of computing."""

    cpu: int = 10  # seconds of each process
    wall: float = 60.0  # seconds
    memory: int = 1 << 30  # bytes of address space of each process, and of memory of all together
    processes: int = 16  # and threads
    files: int = 64 << 20  # bytes of all files
    output: int = 8 << 20  # bytes


DEFAULT = Limits()


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


def run_isolated(files: dict[str, str], main: str, stdin: str = "", limits: Limits = DEFAULT) -> Run:
    """Run the file ``main`` of ``files``, with ``stdin`` as its standard input.

    Every program has a jail of its own, which ends with it: nothing that it does there is left for the next
    one. Raises SandboxError if the kernel refuses; `check_isolation` proves that limits hold.
    """
    if not sys.platform.startswith("linux"):
        raise SandboxError(f"this is {sys.platform}; {_REMEDY}")
    python = os.path.realpath(sys.executable)
    readable = [path for path in (sys.base_prefix, *_LIBRARIES) if os.path.isdir(path)]
    request = json.dumps({"files": files, "main": main, "stdin": stdin})
    with _memory_group(limits.memory + limits.files + _OWN_MEMORY) as group:
        procs = None if group is None else str(group.folder / "cgroup.procs")
        settings = {**asdict(limits), "python": python, "readable": readable, "group": procs}
        with subprocess.Popen(
            [python, "-I", "-S", str(_JAIL), json.dumps(settings)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as process:
            try:
                said, _ = process.communicate(request.encode(), limits.wall + _START_SECONDS)
            except subprocess.TimeoutExpired:
                said = b""
            finally:
                process.kill()
        killed = group is not None and group.killed()
    reply = json.loads(said) if said.endswith(b"\n") else None
    if reply is not None and reply["status"] == "refused":
        raise SandboxError(f"this machine cannot isolate a program ({reply['why']}); {_REMEDY}")
    if killed:
        return Run("memory", -1, "", "")
    # A jail without output was ended by what its program did to it.
    return Run("time", -1, "", "") if reply is None else Run(**reply)


def check_isolation(limits: Limits = DEFAULT) -> str:
    """Run a program that tries to break out; raise SandboxError unless every try fails.

    Returns one sentence: how the memory of programs is bounded on this machine.
    """
    files = {"main.py": _PROBE.format(file=str(_JAIL), processes=limits.processes)}
    run = run_isolated(files, "main.py", limits=limits)
    open_doors = run.stdout.split() if run.failure == "" and run.stdout.endswith("done\n") else ["everything"]
    if open_doors != ["done"]:
        found = ", ".join(door for door in open_doors if door != "done")
        raise SandboxError(f"this machine does not keep a program from: {found}; {_REMEDY}")
    with _memory_group(limits.memory) as group:
        if group is not None:
            return "the memory of programs is bounded by a control group"
    return (
        "the memory of programs is bounded by a check every 50 ms: this process may not make a control "
        "group (run as root, or in a delegated one such as systemd-run --user --scope -p Delegate=yes)"
    )


_PROBE = """
import mmap, os, socket, time
status = open("/proc/self/status").read()
if os.path.exists({file!r}): print("files")
if "CapEff:\\t0000000000000000" not in status: print("privileges")
if "Seccomp:\\t2" not in status: print("system-calls")
if len(open("/proc/net/dev").readlines()) > 3: print("network")
if os.getpid() > 100: print("processes-outside")
try:
    mmap.mmap(-1, 4096)
    print("memory-that-nobody-counts")
except OSError:
    pass
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


@dataclass(frozen=True, slots=True)
class _MemoryGroup:
    """A control group that bounds the memory of everything inside."""

    folder: Path
    events: str  # the file that counts kills

    def killed(self) -> bool:
        """Whether the kernel ended something because the group had no memory left."""
        lines = (self.folder / self.events).read_text(encoding="ascii").splitlines()
        return any(line.startswith("oom_kill ") and line != "oom_kill 0" for line in lines)


# Where the hierarchy is, the limits on memory and on memory with swap, and the file of events.
_VERSIONS = {
    "memory": ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.memsw.limit_in_bytes",
               "memory.oom_control"),
    "": ("/sys/fs/cgroup", "memory.max", "memory.swap.max", "memory.events"),
}  # fmt: skip


@contextmanager
def _memory_group(most: int) -> Iterator[_MemoryGroup | None]:
    """A group below that of this process while the ``with`` lasts; None if we may not make one."""
    group = None
    with suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text(encoding="ascii").splitlines():
            _, controllers, path = line.split(":", 2)
            if group is None and controllers in _VERSIONS:
                group = _made_group(*_VERSIONS[controllers], path, most)
    try:
        yield group
    finally:
        if group is not None:
            _remove(group.folder)


def _made_group(root: str, limit: str, swap: str, events: str, path: str, most: int) -> _MemoryGroup | None:
    parent = Path(root + path)
    if not parent.is_dir():
        return None
    try:
        folder = Path(mkdtemp(prefix="sigma-lab-", dir=parent))
    except OSError:
        return None
    try:
        (folder / limit).write_text(str(most), encoding="ascii")
        with suppress(OSError):  # a kernel that counts no swap
            (folder / swap).write_text("0" if limit == "memory.max" else str(most), encoding="ascii")
    except OSError:
        folder.rmdir()
        return None
    return _MemoryGroup(folder, events)


def _remove(folder: Path) -> None:
    """Remove a group; what ran inside has been killed, and may take a moment to go."""
    for _ in range(200):
        try:
            folder.rmdir()
        except OSError:
            time.sleep(0.01)
        else:
            return
