"""One writer at a time: an exclusive lock beside the memory's file."""

import os
from contextlib import suppress
from pathlib import Path

from sigma_mem.errors import StoreBusyError, StoreError

try:
    import fcntl
except ImportError:  # not a POSIX system
    fcntl = None  # type: ignore[assignment]


class LockFile:
    """Exclusive right to write ``path``, until `release` or the end of the process.

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
        self._fd = -1
        try:
            while not self._taken(path):
                self.forget()  # its former holder removed it between open and flock: try again
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, b"%d\n" % os.getpid(), 0)
        except BaseException:  # also an interrupt: nobody would release it
            self.forget()
            raise

    def _taken(self, path: Path) -> bool:
        """Open the file and lock it; whether it is still the one under its path."""
        try:
            self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            got = f"cannot write beside {path}: {error.strerror}"
            raise StoreError(f"{got}; expected an existing, writable folder") from error
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise _busy(path, os.pread(self._fd, 32, 0).decode("ascii", "replace").strip()) from error
        with suppress(FileNotFoundError):
            return os.path.samestat(os.stat(self._path), os.fstat(self._fd))
        return False

    def release(self) -> None:
        """Remove the file, then unlock; idempotent."""
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
        who, remedy = "this process", "Share that SigmaMem, or take mem.namespace(...) of it"
    else:
        who = f"process {holder or 'unknown'}"
        remedy = "Close it there first, or look meanwhile with SigmaMem(path=..., readonly=True)"
    got = f"{path} is already open for writing by {who}"
    return StoreBusyError(f"{got}; expected one writer at a time. {remedy}")
