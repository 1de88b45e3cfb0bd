"""One writer per memory: a lock file beside it that the kernel releases when the process dies."""

from __future__ import annotations

import os
from pathlib import Path

from sigma_mem.errors import StoreBusyError, StoreError

try:
    import fcntl
except ImportError:  # not a POSIX system
    fcntl = None  # type: ignore[assignment]

__all__ = ["LockFile"]


class LockFile:
    """Exclusive right to write ``path``, held until `release` or the end of the process.

    The lock is flock(2) on ``path + ".lock"``: it conflicts with a second holder in this
    process as well as in another, and cannot outlive its holder, so there is no stale lock
    to clean up after ``kill -9``. The file holds the holder's pid, for the message only.
    """

    def __init__(self, path: Path) -> None:
        if fcntl is None:
            raise StoreError(
                f"cannot lock {path} for writing: this system has no flock; "
                "expected Linux, macOS or another POSIX system. Use path=None for a memory without a file"
            )
        self._path = path.with_name(path.name + ".lock")
        self._fd = self._acquire(path)

    def _acquire(self, path: Path) -> int:
        while True:
            try:
                fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            except OSError as error:
                raise StoreError(
                    f"cannot write beside {path}: {error.strerror}; expected an existing, writable folder"
                ) from error
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                holder = os.pread(fd, 32, 0).decode("ascii", "replace").strip()
                os.close(fd)
                raise _busy(path, holder) from error
            if self._is_current(fd):
                break
            os.close(fd)  # the former holder removed this file while we waited at its door
        os.ftruncate(fd, 0)
        os.pwrite(fd, b"%d\n" % os.getpid(), 0)
        return fd

    def _is_current(self, fd: int) -> bool:
        """Whether the locked file is still the one that the path names."""
        try:
            named = os.stat(self._path)
        except FileNotFoundError:
            return False
        return os.path.samestat(named, os.fstat(fd))

    def release(self) -> None:
        """Remove the file, then let go; calling it twice is fine."""
        if self._fd >= 0:
            self._path.unlink(missing_ok=True)
            self.forget()

    def forget(self) -> None:
        """Close without unlocking: what a forked child does, whose parent still holds the lock."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


def _busy(path: Path, holder: str) -> StoreBusyError:
    if holder == str(os.getpid()):
        who, remedy = "this process", "share that SigmaMem, or take mem.namespace(...) of it"
    else:
        who, remedy = f"process {holder or 'unknown'}", "stop that process, or let it serve the others"
    return StoreBusyError(
        f"{path} is already open for writing by {who}; expected one writer at a time. "
        f"To read beside it, open with readonly=True; to write, {remedy}"
    )
