"""Open a memory file: lock it, check that it is a memory and its version, and migrate it.

Nothing is written before the file is known to be a memory that this version understands,
so a file that is refused is left as it was.
"""

import os
import re
import sqlite3
from contextlib import closing
from functools import cache
from importlib.resources import files
from pathlib import Path

from sigma_mem.errors import StoreBusyError, StoreCorruptError, StoreError, StoreVersionError

try:
    import fcntl
except ImportError:  # not a POSIX system
    fcntl = None  # type: ignore[assignment]


APPLICATION_ID = 0x53694D65  # "SiMe": marks a SQLite file as a memory
SQLITE_MAGIC = b"SQLite format 3\0"
BUSY_SECONDS = 5.0
DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
REMEDIES = {
    sqlite3.SQLITE_FULL: "Free some space",
    sqlite3.SQLITE_BUSY: "Close the other program that has the file open",
}
SQL = files("sigma_mem.store") / "sql"  # numbered migrations, and queries by name


def store_error(path: Path, doing: str, error: sqlite3.Error) -> StoreError:
    """Translate an error of SQLite: say what was being done to which file."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in DAMAGED:
        return _corrupt(path, str(error))
    remedy = REMEDIES.get(code, "Check the disk and the permissions")
    return StoreError(f"could not {doing} {path}: {error}; the ledger is as before. {remedy}, then try again")


def check(path: Path) -> int:
    """Version of the memory in a file, 0 for an absent or empty one; raises if it cannot be used."""
    if not path.exists():
        return 0
    if not path.is_file():
        raise StoreError(f"{path} is not a file; expected the path of a memory file")
    if not _has_sqlite_header(path):
        return 0
    try:
        with closing(connect(path, "immutable" if _has_no_log(path) else "ro")) as db:
            return _version(path, db)
    except sqlite3.Error as error:
        raise store_error(path, "read", error) from error


def _version(path: Path, db: sqlite3.Connection) -> int:
    application = db.execute("PRAGMA application_id").fetchone()[0]
    version = int(db.execute("PRAGMA user_version").fetchone()[0])
    empty = db.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is None
    if empty and application == version == 0:
        return 0  # a process died between creating the file and its first commit
    if application != APPLICATION_ID:
        raise _corrupt(path, f"it is a SQLite file of another program (application_id {application:#x})")
    if version > len(migrations()):
        raise StoreVersionError(
            f"{path} has version {version}, this version of sigma-mem reads up to {len(migrations())}; "
            "upgrade sigma-mem (pip install -U sigma-mem)"
        )
    db.execute("SELECT * FROM record ORDER BY seq DESC LIMIT 1").fetchone()
    return version


def connect(path: Path, mode: str) -> sqlite3.Connection:
    """A connection in autocommit mode whose text comes back as bytes, to be checked before decoding.

    Mode "rw" reads, writes and creates; "ro" reads beside a writer; "immutable" reads a file that
    nobody writes, without making SQLite's two files beside it.
    """
    flags = {"rw": "mode=rwc", "ro": "mode=ro", "immutable": "mode=ro&immutable=1"}[mode]
    db = sqlite3.connect(
        f"{path.absolute().as_uri()}?{flags}",
        uri=True,
        timeout=BUSY_SECONDS,
        isolation_level=None,
        check_same_thread=False,
    )
    db.text_factory = bytes
    try:
        if mode == "rw":
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = FULL")  # a commit returns after the log is on the disk
        else:
            db.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
    except sqlite3.Error as error:
        db.close()
        if mode == "ro" and error.sqlite_errorcode == sqlite3.SQLITE_CANTOPEN and _has_no_log(path):
            return connect(path, "immutable")  # a read-only disk: SQLite cannot create its log files there
        raise
    return db


def migrate(db: sqlite3.Connection, version: int) -> None:
    """Apply the missing migrations, all or none of them."""
    missing = migrations()[version:]
    if not missing:
        return
    marks = f"PRAGMA application_id = {APPLICATION_ID:d};\nPRAGMA user_version = {len(migrations()):d};"
    try:
        db.executescript("\n".join(("BEGIN IMMEDIATE;", *missing, marks, "COMMIT;")))
    except sqlite3.Error:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def _has_sqlite_header(path: Path) -> bool:
    """Whether the file is not empty; raises if it is not a complete SQLite file."""
    try:
        with path.open("rb") as file:
            header = file.read(100)
    except OSError as error:
        raise StoreError(f"could not read {path}: {error.strerror}; check its permissions") from error
    if not header:
        return False
    if len(header) < 100 or not header.startswith(SQLITE_MAGIC):
        raise _corrupt(path, f"it starts with {header[:16]!r}")
    if _has_no_log(path):  # with a log the file may lag behind its header
        page = int.from_bytes(header[16:18], "big")
        expected = (65536 if page == 1 else page) * int.from_bytes(header[28:32], "big")
        if path.stat().st_size < expected:
            raise _corrupt(path, f"it has {path.stat().st_size} bytes of {expected}")
    return True


def _has_no_log(path: Path) -> bool:
    """Whether there is no log of a running or killed writer beside the file."""
    return not path.with_name(path.name + "-wal").exists()


def _corrupt(path: Path, what: str) -> StoreCorruptError:
    return StoreCorruptError(
        f"{path} is not a readable memory: {what}; expected a file written by sigma-mem. "
        "It was left untouched: restore it from a backup, or choose another path"
    )


@cache
def migrations() -> tuple[str, ...]:
    """Texts of ``NNN_*.sql``; number k (from 1) takes a file from version k − 1 to k."""
    found = sorted(file.name for file in SQL.iterdir() if re.match(r"\d{3}_.*\.sql$", file.name))
    return tuple((SQL / name).read_text("utf-8") for name in found)


@cache
def queries() -> dict[str, str]:
    """The statements of ``queries.sql`` by the name in the line ``-- name --`` above each."""
    text = (SQL / "queries.sql").read_text("utf-8")
    _, *parts = re.split(r"^-- (\w+) --$", text, flags=re.MULTILINE)
    return {name: body.strip() for name, body in zip(parts[::2], parts[1::2], strict=True)}


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
            os.close(fd)  # its former holder removed it between open and flock: try again
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
        remedy = "Close it there first, or choose another path; sigma-mem inspect can read it meanwhile"
    return StoreBusyError(
        f"{path} is already open for writing by {who}; expected one writer at a time. {remedy}"
    )
