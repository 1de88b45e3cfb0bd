"""``sigma-mem check``: verify that a memory file is whole."""

from contextlib import closing

from sigma_mem.cli.options import Json, MemoryFile, existing
from sigma_mem.cli.output import say


def check(memory: MemoryFile, json: Json = False) -> None:
    """Verify every line and digest of a memory, and a file's indexes. Works while other processes write.

    Examples:
    sigma-mem check --memory memory.db
    """
    from sigma_mem.store.open import open_store

    with closing(open_store(existing(memory), readonly=True)) as store:
        lines, names = store.verify(), store.namespaces()
    values = {"memory": str(memory), "lines": lines, "namespaces": names}
    say(json, values, f"{memory} is whole: {lines} lines in {len(names)} namespace{'s' * (len(names) != 1)}")
