"""``sigma-mem check``: verify that a memory file is whole."""

from contextlib import closing

from sigma_mem.cli.options import Json, MemoryFile, existing
from sigma_mem.cli.output import say


def check(memory: MemoryFile, json: Json = False) -> None:
    """Verify every line and digest of a memory, and a file's indexes. Works while other processes write.

    Examples:
    sigma-mem check --memory memory.db
    """
    from sigma_mem.store import PostgresStore, SqliteStore
    from sigma_mem.store.postgres import is_postgres

    kind = PostgresStore if is_postgres(memory) else SqliteStore
    with closing(kind(existing(memory), readonly=True)) as store:
        lines, names = store.verify(), store.namespaces()
    values = {"memory": str(memory), "lines": lines, "namespaces": names}
    say(json, values, f"{memory} is whole: {lines} lines in {len(names)} namespace{'s' * (len(names) != 1)}")
