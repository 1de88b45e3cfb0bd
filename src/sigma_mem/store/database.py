"""Opening a memory file: is it one, which version, and bring it up to date.

Nothing is written before the file is known to be a memory that this version understands,
so a file that is refused is left as it was.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from sigma_mem.errors import StoreCorruptError, StoreError, StoreVersionError
from sigma_mem.store.sql import migrations, statements

__all__ = ["APPLICATION_ID", "check", "connect", "migrate", "store_errors"]

APPLICATION_ID = 0x53694D65  # "SiMe": marks a SQLite file as a memory
SQLITE_MAGIC = b"SQLite format 3\0"
BUSY_SECONDS = 5.0
DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
REMEDIES = {
    sqlite3.SQLITE_FULL: "Free some space",
    sqlite3.SQLITE_BUSY: "Close the other program that has the file open",
}


@contextmanager
def store_errors(path: Path, doing: str) -> Iterator[None]:
    """Turn an error of SQLite into one of ours that says what was being done to which file."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in DAMAGED:
            raise _corrupt(path, str(error)) from error
        remedy = REMEDIES.get(code, "Check the disk and the permissions")
        raise StoreError(
            f"could not {doing} {path}: {error}; the ledger is as before. {remedy}, then try again"
        ) from error


def check(path: Path) -> int:
    """Version of the memory in a file, 0 for an absent or empty one; raises if it is not for us.

    Raises
    ------
    StoreCorruptError
        If it is not a SQLite file, belongs to another program, or is cut or damaged.
    StoreVersionError
        If a newer version of the package wrote it.
    """
    if not path.exists():
        return 0
    if not path.is_file():
        raise StoreError(f"{path} is not a file; expected the path of a memory file")
    if not _has_sqlite_header(path):
        return 0
    with store_errors(path, "read"), closing(connect(path, "immutable" if _at_rest(path) else "ro")) as db:
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

    Parameters
    ----------
    mode : str
        ``"rw"``: read, write and create; ``"ro"``: read beside a writer; ``"immutable"``: read a file
        that nobody writes, without making SQLite's two files beside it.
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
        if mode == "ro" and error.sqlite_errorcode == sqlite3.SQLITE_CANTOPEN and _at_rest(path):
            return connect(path, "immutable")  # a read-only disk: no room for the files beside it
        raise
    return db


def migrate(db: sqlite3.Connection, version: int) -> None:
    """Apply the missing migrations, all or none of them."""
    missing = migrations()[version:]
    if not missing:
        return
    db.execute("BEGIN IMMEDIATE")
    try:
        for script in missing:
            for statement in statements(script):
                db.execute(statement)
        db.execute(f"PRAGMA application_id = {APPLICATION_ID:d}")  # a PRAGMA takes no bound parameter
        db.execute(f"PRAGMA user_version = {len(migrations()):d}")
        db.execute("COMMIT")
    except sqlite3.Error:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def _has_sqlite_header(path: Path) -> bool:
    """Whether there is anything to read; raises if what is there is not a whole SQLite file."""
    try:
        with path.open("rb") as file:
            header = file.read(100)
    except OSError as error:
        raise StoreError(f"could not read {path}: {error.strerror}; check its permissions") from error
    if not header:
        return False
    if len(header) < 100 or not header.startswith(SQLITE_MAGIC):
        raise _corrupt(path, f"it starts with {header[:16]!r}")
    if _at_rest(path):  # with a log beside it the file may rightly lag behind its header
        page = int.from_bytes(header[16:18], "big")
        expected = (65536 if page == 1 else page) * int.from_bytes(header[28:32], "big")
        if path.stat().st_size < expected:
            raise _corrupt(path, f"it has {path.stat().st_size} bytes of {expected}")
    return True


def _at_rest(path: Path) -> bool:
    """Whether the file is all there is: no log of a writer, alive or killed, beside it."""
    return not path.with_name(path.name + "-wal").exists()


def _corrupt(path: Path, what: str) -> StoreCorruptError:
    return StoreCorruptError(
        f"{path} is not a readable memory: {what}; expected a file written by sigma-mem. "
        "It was left untouched: restore it from a backup, or choose another path"
    )
