"""The tables' version: made in an empty database, refused where it is another, upgraded on request."""

import os
from functools import cache
from hashlib import blake2b
from importlib.resources import files
from typing import Any

from sigma_mem.errors import StoreError, StoreVersionError
from sigma_mem.store.base import SNAPSHOT_FORMAT
from sigma_mem.store.postgres.address import PostgresAddress
from sigma_mem.store.postgres.connections import Connections
from sigma_mem.store.scripts import named_queries, numbered_scripts

_SQL = files("sigma_mem.store.postgres") / "sql"
_VERSION = "SELECT to_regclass('ledger_version') IS NOT NULL"
_MAKE_VERSION = "CREATE TABLE ledger_version (version integer NOT NULL)"


@cache
def postgres_scripts() -> tuple[str, ...]:
    """The migrations of the tables."""
    return numbered_scripts(_SQL)


@cache
def postgres_queries() -> dict[str, str]:
    """The statements by their names."""
    return {name: sql.replace("{version}", str(SNAPSHOT_FORMAT)) for name, sql in named_queries(_SQL).items()}


def advisory_key(schema: str, what: str) -> int:
    """The number of an advisory lock."""
    return int.from_bytes(blake2b(f"{schema}\0{what}".encode(), digest_size=8).digest(), signed=True)


def prepare_tables(connections: Connections, readonly: bool) -> None:
    """Make the tables in an empty database; raise where their version is not the newest."""
    with connections.borrow("open") as db:
        version = _version(db)
    if version == 0 and not readonly:
        upgrade_tables(connections)
        return
    refuse_other_version(connections.address, version)


def refuse_other_version(address: PostgresAddress, version: int) -> None:
    """Raise unless the tables have the newest version."""
    newest = len(postgres_scripts())
    if version == 0:
        raise StoreError(f"{address} holds no memory yet; expected one to read. Write to it first")
    if version < newest:
        raise StoreVersionError(
            f"{address} has version {version}, this version of sigma-mem needs {newest}; "
            "back it up, then run: sigma-mem db upgrade URL"
        )
    if version > newest:
        raise StoreVersionError(
            f"{address} has version {version}, this version of sigma-mem reads up to {newest}; "
            "upgrade sigma-mem (pip install -U sigma-mem)"
        )


def upgrade_tables(connections: Connections) -> tuple[int, int]:
    """Apply the missing migrations, all or none; return the version before and after."""
    address = connections.address
    with connections.borrow("upgrade") as db, db.transaction():
        db.execute("SELECT pg_advisory_xact_lock(%s)", [advisory_key(address.schema, "upgrade")])
        db.execute(f"CREATE SCHEMA IF NOT EXISTS {address.schema}")
        before = _version(db)
        newest = len(postgres_scripts())
        if before > newest:
            refuse_other_version(address, before)
        if before == 0:
            db.execute(_MAKE_VERSION)
            db.execute("INSERT INTO ledger_version VALUES (0)")
        for script in postgres_scripts()[before:]:
            db.execute(script)
        db.execute("UPDATE ledger_version SET version = %s", [newest])
        return before, newest


def upgrade_postgres(url: str | os.PathLike[str]) -> tuple[int, int]:
    """Bring a memory's tables to the newest version; return the version before and after."""
    connections = Connections(PostgresAddress.parse(url), 1)
    try:
        return upgrade_tables(connections)
    finally:
        connections.close()


def _version(db: Any) -> int:
    """The version of the tables; 0 where there are none."""
    if not db.execute(_VERSION).fetchone()[0]:
        return 0
    return int(db.execute("SELECT version FROM ledger_version").fetchone()[0])
