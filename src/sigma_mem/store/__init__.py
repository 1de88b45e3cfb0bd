"""Where a memory lives: an append-only ledger, and snapshots derived from it.

`open_store` picks the store for a path. `InMemoryStore` is shipped for users' tests as well;
`SqliteStore` keeps a memory in one file that survives ``kill -9``, and `PostgresStore` in a database that
several processes write. All implement `Store`.
"""

from sigma_mem.store.base import Record, Snapshot, Store, Ticket
from sigma_mem.store.inmemory import InMemoryStore
from sigma_mem.store.open import open_store
from sigma_mem.store.postgres import PostgresStore
from sigma_mem.store.sqlite import SqliteStore

__all__ = [
    "InMemoryStore", "PostgresStore", "Record", "Snapshot", "SqliteStore", "Store", "Ticket", "open_store",
]  # fmt: skip
