"""A memory file: lock it, check that it is a memory and its version, migrate it, read and write its tables.

Nothing is written before the file is known to be a memory that this version understands, so a file that
is refused is left as it was.
"""

import json
import os
import re
import sqlite3
import threading
import zlib
from collections.abc import Sequence
from contextlib import closing, suppress
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from sigma_mem.errors import StoreBusyError, StoreCorruptError, StoreError, StoreVersionError
from sigma_mem.store.base import Record

try:
    import fcntl
except ImportError:  # not a POSIX system
    fcntl = None  # type: ignore[assignment]


APPLICATION_ID = 0x53694D65  # "SiMe": marks a SQLite file as a memory
BUSY_SECONDS = 5.0
SQL = files("sigma_mem.store") / "sql"  # numbered migrations, and queries by name


def store_error(path: Path, doing: str, error: sqlite3.Error) -> StoreError:
    """Translate an error of SQLite: say what was being done to which file."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return _corrupt(path, str(error))
    busy, full = "Close the other program that has the file open", "Free some space"
    remedies = {sqlite3.SQLITE_FULL: full, sqlite3.SQLITE_BUSY: busy}
    remedy = remedies.get(code, "Check the disk and the permissions")
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
    uri = f"{path.absolute().as_uri()}?{flags}"
    db = sqlite3.connect(uri, BUSY_SECONDS, isolation_level=None, check_same_thread=False, uri=True)
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
    if len(header) < 100 or not header.startswith(b"SQLite format 3\0"):
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
        while True:
            try:
                fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            except OSError as error:
                got = f"cannot write beside {path}: {error.strerror}"
                raise StoreError(f"{got}; expected an existing, writable folder") from error
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                holder = os.pread(fd, 32, 0).decode("ascii", "replace").strip()
                os.close(fd)
                raise _busy(path, holder) from error
            with suppress(FileNotFoundError):
                if os.path.samestat(os.stat(self._path), os.fstat(fd)):
                    break
            os.close(fd)  # its former holder removed it between open and flock: try again
        os.ftruncate(fd, 0)
        os.pwrite(fd, b"%d\n" % os.getpid(), 0)
        self._fd = fd

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
    got = f"{path} is already open for writing by {who}"
    return StoreBusyError(f"{got}; expected one writer at a time. {remedy}")


class Tables:
    """Two connections to one file, one to write and one to read, each with a lock.

    The writing thread refers to these and not to the store, so that a store that was never closed can be
    collected. Every row carries a CRC32 that is checked before anything is decoded, so damage is found
    where it is read, and the error names the record.
    """

    def __init__(self, path: Path, reader: sqlite3.Connection, writer: sqlite3.Connection | None) -> None:
        self._path, self._reader, self._writer, self._sql = path, reader, writer, queries()
        self._read_lock, self._write_lock = threading.Lock(), threading.Lock()

    def commit(self, records: Sequence[tuple[str, Record]]) -> None:
        """Write records as one transaction: all of them, or none and StoreError."""
        rows = [_row(namespace, record) for namespace, record in records]
        self.write(f"append {len(rows)} record(s) to", "append", rows)

    def last(self) -> int:
        """Sequence number of the last durable record, 0 before the first."""
        return int(self.read("last")[0][0])

    def exists(self, namespace: str, kind: str, id: str) -> bool:
        """Whether the record is durable."""
        return bool(self.read("exists", namespace, kind, id))

    def close(self) -> None:
        """Close the reader, then the writer, which moves the log into the file."""
        with self._read_lock, self._write_lock:
            self._reader.close()
            if self._writer is not None:
                self._writer.close()

    def write(self, doing: str, statement: str, rows: Sequence[tuple[str | int | bytes, ...]]) -> None:
        """Execute a named statement for every row, in one transaction."""
        db = self._writer
        if db is None:
            raise ValueError("these tables were opened to read")
        with self._write_lock:
            try:
                db.execute("BEGIN IMMEDIATE")
                db.executemany(self._sql[statement], rows)
                db.execute("COMMIT")
            except sqlite3.Error as error:
                if db.in_transaction:  # SQLite has undone some failed transactions by itself
                    db.execute("ROLLBACK")
                raise store_error(self._path, doing, error) from error

    def read(self, query: str, *values: str | int) -> list[Any]:
        """All rows of a named query."""
        with self._read_lock:
            try:
                return self._reader.execute(self._sql[query], values).fetchall()
            except sqlite3.Error as error:
                raise store_error(self._path, "read", error) from error

    def decode(self, row: tuple[Any, ...]) -> Record:
        """The record in a row whose CRC holds; StoreCorruptError for any other."""
        seq, *texts, phi, crc = row
        if not all(isinstance(part, bytes) for part in (*texts, phi)) or crc != checksum(seq, *texts, phi):
            what = f"record {seq} is damaged (CRC32 does not match)"
            raise StoreCorruptError(f"{self._path}: {what}; restore the file")
        _, kind, id, event, body = (text.decode() for text in texts)
        return Record(kind, id, event, json.loads(body), phi, seq)


def open_to_write(path: Path) -> Tables:
    """Check the file before anything is written, create or migrate it, and open its tables."""
    version = check(path)
    try:
        writer = connect(path, "rw")
        try:
            migrate(writer, version)
            return Tables(path, connect(path, "ro"), writer)
        except sqlite3.Error:
            writer.close()
            raise
    except sqlite3.Error as error:
        raise store_error(path, "open", error) from error


def open_to_read(path: Path) -> Tables:
    """Open the tables of an existing memory that needs no migration."""
    version = check(path)
    if version == 0:
        raise StoreError(f"{path} holds no memory yet; expected an existing file to read. Write to it first")
    if version < len(migrations()):
        got = f"{path} has version {version}, expected {len(migrations())}"
        raise StoreVersionError(f"{got}; open it to write once to upgrade it")
    try:
        return Tables(path, connect(path, "ro"), None)
    except sqlite3.Error as error:
        raise store_error(path, "open", error) from error


def _row(namespace: str, r: Record) -> tuple[str | int | bytes, ...]:
    """A record as a row of the table."""
    try:
        body = json.dumps(dict(r.body), allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        what = f"{r.kind} {r.id!r} has a body that is not JSON: {error}"
        raise StoreError(f"{what}; nothing was written") from error
    texts = (namespace, r.kind, r.id, r.event, body)
    return (r.seq, *texts, r.phi, checksum(r.seq, *(text.encode() for text in texts), r.phi))


def checksum(seq: int, *parts: bytes) -> int:
    """CRC32 of a record (seq, namespace, kind, id, event, body, φ) or snapshot (seq, namespace, body)."""
    return zlib.crc32(b"\0".join((b"%d" % seq, *parts)))
