"""Open the store that a path names."""

import os

from sigma_mem.errors import InputError
from sigma_mem.store.base import Store
from sigma_mem.store.inmemory import InMemoryStore
from sigma_mem.store.postgres import PostgresStore, is_postgres
from sigma_mem.store.sqlite import SqliteStore
from sigma_mem.store.writer import refuse_unwritable


def open_store(path: str | os.PathLike[str] | None, readonly: bool = False, create: bool = True) -> Store:
    """A store for a path: None keeps the memory in the process, a file path in SQLite, a URL in PostgreSQL.

    With ``create=False`` a file that is not there is an error, and none is made.
    """
    if path is None:
        if readonly:
            raise InputError("got readonly=True without a path; there is nothing to read")
        return InMemoryStore()
    if is_postgres(path):
        return PostgresStore(path, readonly)
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
