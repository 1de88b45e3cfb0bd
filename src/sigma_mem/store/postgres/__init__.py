"""A memory in PostgreSQL, for several processes that write it at once.

Every namespace has a ledger of its own. A process appends to it during a *turn*: it takes the namespace's
advisory lock, reads what others appended since, and then appends and commits, batch after batch, until it has
nothing to write or others have waited long enough. So every line is made from the state after all lines
before it, as in one process, and nothing is lost or doubled.
"""

from sigma_mem.store.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
