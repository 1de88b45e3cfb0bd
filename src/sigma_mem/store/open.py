"""Open, copy and upgrade the store that a path names; only here is it known what kinds there are."""

import os
from contextlib import closing
from pathlib import Path

from sigma_mem.errors import InputError
from sigma_mem.files import refuse_taken, replace_file
from sigma_mem.store.base import Store, refuse_unwritable
from sigma_mem.store.file import copy_pages
from sigma_mem.store.inmemory import InMemoryStore
from sigma_mem.store.postgres import PostgresStore
from sigma_mem.store.postgres.tables import PostgresAddress, upgrade_postgres
from sigma_mem.store.sqlite import SqliteStore, upgrade_file

StorePath = str | os.PathLike[str]


def file_of(path: StorePath) -> Path | None:
    """The file that a path names; None for the address of a database."""
    return None if os.fspath(path).startswith(("postgresql://", "postgres://")) else Path(path)


def shown_path(path: StorePath) -> str:
    """A path as it may be shown: an address without user and password."""
    return os.fspath(path) if file_of(path) is not None else PostgresAddress.parse(path).shown


def open_store(
    path: StorePath | None, readonly: bool = False, create: bool = True, patience: float | None = None
) -> Store:
    """A store for a path: None keeps the memory in the process, a file path in SQLite, a URL in PostgreSQL.

    With ``create=False`` a file that is not there is an error, and none is made. `patience` is how many
    seconds a call waits for a database that went away; 10 by default.
    """
    if path is None:
        if readonly:
            raise InputError("got readonly=True without a path; there is nothing to read")
        return InMemoryStore()
    if file_of(path) is None:
        return PostgresStore(path, readonly, patience)
    text = os.fspath(path)
    if text in ("", ":memory:") or "://" in text:
        got = text.partition("://")[0] + "://…" if "://" in text else text  # it may hold a password
        raise InputError(
            f"got path {got!r}; expected a file path (SQLite), postgresql://… or None (in memory)"
        )
    refuse_unwritable(text)
    if not create and not readonly and not os.path.exists(path):
        raise InputError(f"there is no file {text}, and no memory to open; expected peers=[...] to make one")
    return SqliteStore(path, readonly)


def upgrade_store(path: StorePath) -> tuple[int, int]:
    """Bring a memory's tables to this version; return the version before and after."""
    file = file_of(path)
    return upgrade_postgres(path) if file is None else upgrade_file(file)


def backup_store(store: Store, path: Path) -> None:
    """Copy all namespaces into a new file, which is complete or not there at all.

    A file of SQLite is copied page by page while it may be written; what is queued is in the copy. Any other
    store is copied line by line, one namespace after the other.
    """
    refuse_taken(path)
    with replace_file(path, private=True) as temporary:
        if isinstance(store, SqliteStore):
            if not store.readonly:
                store.flush()
            copy_pages(store.path, temporary)
        else:
            with closing(SqliteStore(temporary)) as copy:
                for namespace in store.namespaces():
                    records = [record._replace(seq=0) for record in store.records(namespace)]
                    copy.append(namespace, records)[1].wait()
