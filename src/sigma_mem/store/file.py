"""A memory's file: lock it for one writer, check that it is one and its version, connect to it, migrate it.

Nothing is written before the file is known to be a memory that this version understands, so a file that
is refused is left as it was.
"""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from functools import cache
from importlib.resources import files
from pathlib import Path

from sigma_mem.errors import StoreBusyError, StoreCorruptError, StoreError
from sigma_mem.files import make_private
from sigma_mem.store.tables import named_queries, numbered_scripts, refuse_version

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
            got = f"cannot write next to {path}: {error.strerror}"
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
        remedy = "Close it there first, or only read it with SigmaMem(path=..., readonly=True)"
    got = f"{path} is already open for writing by {who}"
    return StoreBusyError(f"{got}; expected one writer at a time. {remedy}")


APPLICATION_ID = 0x53694D65  # "SiMe": marks a SQLite file as a memory
BUSY_SECONDS = 5.0
_PAGES = 1024  # copied at a time, so that a writer is not held up
_LONGEST = 120  # characters of SQLite's own words in a message
SQL = files("sigma_mem.store") / "sql"  # numbered migrations, and queries by name

# A damaged file can make SQLite return what is not text, which Python then cannot decode.
SQLITE_ERRORS = (sqlite3.Error, UnicodeDecodeError)


@cache
def migrations() -> tuple[str, ...]:
    """The numbered scripts of SQLite's files."""
    return numbered_scripts(SQL)


@cache
def queries() -> dict[str, str]:
    """The statements for SQLite's files by their names."""
    return named_queries(SQL)


def store_error(path: Path, doing: str, error: Exception) -> StoreError:
    """Translate an error of SQLite: name the operation and the file."""
    said = " ".join(str(error).split())
    said = said if len(said) <= _LONGEST else said[:_LONGEST] + "…"  # it may quote a whole statement
    if isinstance(error, UnicodeDecodeError):
        return _corrupt(path, "SQLite finds it damaged")
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return _corrupt(path, said)
    busy, full = "Close the other program that has the file open", "Free some space"
    remedies = {sqlite3.SQLITE_FULL: full, sqlite3.SQLITE_BUSY: busy}
    remedy = remedies.get(code, "Check the disk and the permissions")
    return StoreError(f"could not {doing} {path}: {said}; the ledger is as before. {remedy}, then try again")


def check(path: Path) -> int:
    """Version of the memory in a file, 0 for an absent or empty one; raises if it cannot be used."""
    if not path.exists():
        return 0
    if not path.is_file():
        raise StoreError(f"{path} is not a file; expected the path of a memory file")
    if (names := path.stat().st_nlink) > 1:  # lock and log are next to a name, so each name has its own
        raise StoreError(
            f"{path} is one of {names} names (hard links) of the same file; expected one name, else two "
            "writers would not see each other. Remove the others, or copy the file and open the copy"
        )
    if not _has_sqlite_header(path):
        return 0
    try:
        with closing(connect(path, "immutable" if _has_no_log(path) else "ro")) as db:
            return _version(path, db)
    except SQLITE_ERRORS as error:
        raise store_error(path, "read", error) from error


def refuse_absent_or_older(path: Path) -> None:
    """Raise unless the file holds a memory that needs no migration."""
    refuse_version(path, check(path), len(migrations()), "open it to write once to upgrade it")


def connect(path: Path, mode: str) -> sqlite3.Connection:
    """A connection in autocommit mode whose text comes back as bytes, to be checked before decoding.

    Mode "rw" reads, writes and creates; "ro" reads while another process writes; "immutable" reads
    a file that nobody writes, without SQLite's two extra files.
    """
    flags = {"rw": "mode=rwc", "ro": "mode=ro", "immutable": "mode=ro&immutable=1"}[mode]
    if mode == "rw":
        with suppress(OSError):  # it is there, or SQLite reports what is wrong; its log is as the file is
            make_private(path)
    uri = f"{path.absolute().as_uri()}?{flags}"
    db = sqlite3.connect(uri, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False, uri=True)
    db.text_factory = bytes
    try:
        if mode == "rw":
            db.execute("PRAGMA page_size = 8192")  # of a new file: lines of a kilobyte waste less of it
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = FULL")  # a commit returns after the log is on the disk
        else:
            db.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
    except SQLITE_ERRORS as error:
        db.close()
        code = getattr(error, "sqlite_errorcode", 0)
        if mode == "ro" and code == sqlite3.SQLITE_CANTOPEN and _has_no_log(path):
            return connect(path, "immutable")  # a read-only disk: SQLite cannot create its log files there
        raise
    return db


def migrate(db: sqlite3.Connection, version: int) -> None:
    """Apply the missing migrations, all or none of them."""
    if version == len(migrations()):
        return
    try:
        db.execute("BEGIN IMMEDIATE")
        for script in migrations()[version:]:
            for statement in _statements(script):
                db.execute(statement)
        db.execute(f"PRAGMA application_id = {APPLICATION_ID:d}")
        db.execute(f"PRAGMA user_version = {len(migrations()):d}")
        db.execute("COMMIT")
    finally:
        if db.in_transaction:
            db.execute("ROLLBACK")


def copy_pages(source: Path, target: Path) -> None:
    """Copy a memory's file page by page, also while it is written."""
    try:
        with closing(connect(source, "ro")) as db, closing(sqlite3.connect(target)) as copy:
            db.backup(copy, pages=_PAGES)
    except sqlite3.Error as error:
        raise store_error(source, "copy", error) from error


def _version(path: Path, db: sqlite3.Connection) -> int:
    application = db.execute("PRAGMA application_id").fetchone()[0]
    version = int(db.execute("PRAGMA user_version").fetchone()[0])
    empty = db.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is None
    if empty and application == version == 0:
        return 0  # a process died between creating the file and its first commit
    if application != APPLICATION_ID:
        raise _corrupt(path, f"it is a SQLite file of another program (application_id {application:#x})")
    if version > len(migrations()):
        refuse_version(path, version, len(migrations()), "")
    return version


def _statements(script: str) -> Iterator[str]:
    """The statements of a script one by one: `executescript` would commit what came before."""
    lines = ""
    for line in script.splitlines(keepends=True):
        lines += line
        if sqlite3.complete_statement(lines):
            yield lines
            lines = ""


def _has_sqlite_header(path: Path) -> bool:
    """Whether the file is not empty; raises if it is not a complete SQLite file."""
    try:
        with path.open("rb") as file:
            header = file.read(100)
    except OSError as error:
        raise StoreError(f"could not read {path}: {error.strerror}; check its permissions") from error
    if not header:
        return False
    if len(header) < 100 or not header.startswith(b"SQLite format 3\0"):
        raise _corrupt(path, f"it starts with {header[:16]!r}")
    if _has_no_log(path):  # with a log the file may lag behind its header
        page = int.from_bytes(header[16:18], "big")
        expected = (65536 if page == 1 else page) * int.from_bytes(header[28:32], "big")
        if path.stat().st_size < expected:
            raise _corrupt(path, f"it has {path.stat().st_size} bytes of {expected}")
    return True


def _has_no_log(path: Path) -> bool:
    """Whether there is no log of a running or killed writer next to the file."""
    return not path.with_name(path.name + "-wal").exists()


def _corrupt(path: Path, what: str) -> StoreCorruptError:
    return StoreCorruptError(
        f"{path} is not a readable memory: {what}; expected a file written by sigma-mem. "
        "It was left untouched: restore it from a backup, or choose another path"
    )
