"""The tables of a memory in PostgreSQL: their version, and queries."""

import os
from collections.abc import Sequence
from functools import cache
from hashlib import blake2b
from importlib.resources import files
from typing import Any

from sigma_mem.errors import StoreError, StoreVersionError
from sigma_mem.store.postgres.connections import Connections, PostgresAddress
from sigma_mem.store.tables import Tables, named_queries, numbered_scripts

_SQL = files("sigma_mem.store.postgres") / "sql"


@cache
def postgres_scripts() -> tuple[str, ...]:
    """The migrations of the tables."""
    return numbered_scripts(_SQL)


@cache
def postgres_queries() -> dict[str, str]:
    """The statements by their names."""
    found = named_queries(files("sigma_mem.store") / "sql", _SQL)
    return {name: sql.replace("?", "%s") for name, sql in found.items()}


def advisory_key(schema: str, what: str) -> int:
    """The number of an advisory lock."""
    return int.from_bytes(blake2b(f"{schema}\0{what}".encode(), digest_size=8).digest(), signed=True)


def as_bytes(values: Sequence[Any]) -> list[Any]:
    """Values as the tables take them: every text is bytes."""
    return [value.encode() if isinstance(value, str) else value for value in values]


class PostgresTables(Tables):
    """Named queries; texts are bytes in the tables."""

    def __init__(self, connections: Connections) -> None:
        super().__init__(str(connections.address))
        self.connections = connections

    def read(self, query: str, *values: str | int | bytes) -> list[Any]:
        """All rows of a named query; waits some seconds for a database that went away."""

        def attempt() -> list[Any]:
            with self.connections.borrow("read") as db:
                found: list[Any] = db.execute(
                    postgres_queries()[query], as_bytes(values), binary=True
                ).fetchall()
                return found

        return self.connections.patiently(attempt)

    def save_snapshot(self, *values: str | int | bytes) -> bool:
        """Keep a snapshot; whether it was kept."""
        with self.connections.borrow("save a snapshot in") as db:
            return bool(db.execute(postgres_queries()["save_snapshot"], as_bytes(values)).rowcount > 0)

    def finish_erasure(self) -> None:
        """Write the tables anew if bytes of forgotten lines may be left in their files.

        VACUUM would keep what an older transaction of anybody may still see; a table that is altered is
        written with what is there now.
        """
        marks = self.read("erasures")
        if not marks:
            return
        sql = postgres_queries()
        with self.connections.borrow("erase forgotten lines from") as db, db.transaction():
            db.execute(sql["rewrite_record"])
            db.execute(sql["rewrite_snapshot"])
            for mark in marks:
                db.execute(sql["finish_erasure"], mark)

    def close(self) -> None:
        """Close all connections."""
        self.connections.close()


def prepare_tables(connections: Connections, readonly: bool) -> None:
    """Make the tables in an empty database; raise if their version is not the newest."""
    with connections.borrow("open") as db:
        version = _version(db)
    if version == 0 and not readonly:
        upgrade_tables(connections)
    else:
        _refuse_other_version(connections.address, version)


def upgrade_tables(connections: Connections) -> tuple[int, int]:
    """Apply the missing migrations, all or none; return the version before and after."""
    address, newest = connections.address, len(postgres_scripts())
    with connections.borrow("upgrade") as db, db.transaction():
        db.execute("SELECT pg_advisory_xact_lock(%s)", [advisory_key(address.schema, "upgrade")])
        db.execute(f"CREATE SCHEMA IF NOT EXISTS {address.schema}")
        before = _version(db)
        if before > newest:
            _refuse_other_version(address, before)
        if before == 0:
            db.execute("CREATE TABLE ledger_version (version integer NOT NULL)")
            db.execute("INSERT INTO ledger_version VALUES (0)")
        for script in postgres_scripts()[before:]:
            db.execute(script)
        db.execute("UPDATE ledger_version SET version = %s", [newest])
        return before, newest


def upgrade_postgres(url: str | os.PathLike[str]) -> tuple[int, int]:
    """Bring a memory's tables to the newest version; return the version before and after."""
    connections = Connections(PostgresAddress.parse(url))
    try:
        return upgrade_tables(connections)
    finally:
        connections.close()


def _refuse_other_version(address: PostgresAddress, version: int) -> None:
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


def _version(db: Any) -> int:
    """The version of the tables; 0 if there are none."""
    if not db.execute("SELECT to_regclass('ledger_version') IS NOT NULL").fetchone()[0]:
        return 0
    return int(db.execute("SELECT version FROM ledger_version").fetchone()[0])
