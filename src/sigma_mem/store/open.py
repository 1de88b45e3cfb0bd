"""Open the store that a path names."""

import os

from sigma_mem.errors import InputError
from sigma_mem.store.base import Store
from sigma_mem.store.inmemory import InMemoryStore
from sigma_mem.store.sqlite import SqliteStore


def open_store(path: str | os.PathLike[str] | None, readonly: bool = False, create: bool = True) -> Store:
    """A store for a path: None keeps the memory in the process, a file path in SQLite.

    With ``create=False`` a file that is not there is an error, and none is made.
    """
    if path is None:
        if readonly:
            raise InputError("got readonly=True without a path; there is nothing to read")
        return InMemoryStore()
    text = os.fspath(path)
    if text.startswith(("postgresql://", "postgres://")):
        raise InputError(
            "PostgreSQL comes with the service and is not available yet; "
            "expected a file path (SQLite) or None (in memory)"
        )
    if text in ("", ":memory:") or "://" in text:
        raise InputError(f"got path {text!r}; expected a file path (SQLite) or None (in memory)")
    if not create and not readonly and not os.path.exists(path):
        raise InputError(f"there is no file {text}, and no memory to open; expected peers=[...] to make one")
    return SqliteStore(path, readonly)
