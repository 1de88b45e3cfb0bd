"""A memory's tables in PostgreSQL: where they are, connections to them, their version, and queries.

Connections are made when needed, kept, and dropped when they break.
"""

import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from hashlib import blake2b
from importlib.resources import files
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from sigma_mem.errors import InputError, StoreBusyError, StoreError, StoreUnavailableError
from sigma_mem.extras import require
from sigma_mem.store.tables import Tables, named_queries, numbered_scripts, refuse_version

PATIENCE = 10.0  # seconds that a call waits for a database that went away
LOCK_SECONDS = 10.0  # that a statement waits for a lock
IDLE_SECONDS = 30.0  # after which the server ends a connection, and with it the turn of a process that hangs
ANSWER_SECONDS = 30.0  # after which a server that takes a statement and says nothing counts as gone
_TURNS, _BORROWED = 8, 4  # connections at most
_LOCK_NOT_AVAILABLE = "55P03"
_DEFAULTS = {  # of libpq, if the address has none
    "application_name": "sigma-mem",
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 2,
    "tcp_user_timeout": 15_000,
}
_HASTY = {"connect_timeout": 2, "tcp_user_timeout": 2000}  # if there is something to do without the database
_HASTY_SECONDS = 3.0  # instead of ANSWER_SECONDS
SCHEMA = "sigma_mem"  # of PostgreSQL, if an address names none
_SCHEMA_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")
T = TypeVar("T")


def psycopg() -> Any:
    """The driver."""
    return require("psycopg", extra="postgres", purpose="a memory in PostgreSQL")


@cache
def _connection_class(driver: Any) -> Any:
    """A connection that does not wait forever: an address that swallows packets never answers."""

    class Impatient(driver.Connection):  # type: ignore[misc]
        answers_within: float | None = ANSWER_SECONDS

        def wait(self, *args: Any, **options: Any) -> Any:
            return super().wait(*args, **{"timeout": self.answers_within, **options})

    return Impatient


@dataclass(frozen=True, slots=True)
class PostgresAddress:
    """The address of a memory: ``postgresql://user:password@host/database?schema=name``.

    Everything that libpq takes may stand in it; ``schema`` is where the tables are, for several memories in
    one database.

    >>> print(PostgresAddress.parse("postgresql://ann:secret@db.example:5432/work?sslmode=require"))
    postgresql://db.example:5432/work
    """

    conninfo: str = field(repr=False)
    shown: str
    schema: str = SCHEMA

    @classmethod
    def parse(cls, url: str | os.PathLike[str]) -> "PostgresAddress":
        """Read an address; InputError, without any of its text, if it is none."""
        try:
            parts = urlsplit(os.fspath(url))
            options = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
        except ValueError:
            raise InputError(
                "got an address of PostgreSQL that cannot be read; expected "
                "postgresql://user:password@host:port/database, with special characters as %XX"
            ) from None
        schema = dict(options).get("schema", SCHEMA)
        if not _SCHEMA_NAME.fullmatch(schema):
            raise InputError(f"got schema={schema!r:.80}; expected small letters, digits and _")
        kept = [(key, value) for key, value in options if key != "schema"]
        conninfo = urlunsplit(parts._replace(query=urlencode(kept)))
        host = parts.netloc.rpartition("@")[2] or dict(options).get("host", "")
        shown = f"postgresql://{host}{parts.path}" + (f"?schema={schema}" if schema != SCHEMA else "")
        return cls(conninfo, shown, schema)

    def __str__(self) -> str:
        return self.shown


class Connections:
    """Connections in autocommit mode, each used by one thread at a time.

    psycopg_pool would add threads of its own, which a forked child loses, and would report a timeout instead
    of what is wrong with the server.

    Attributes
    ----------
    turns : threading.BoundedSemaphore
        How many may be used for turns at once; others are borrowed.
    """

    def __init__(
        self, address: PostgresAddress, *, readonly: bool = False, patience: float | None = None
    ) -> None:
        self.address, self.driver, self._patience = address, psycopg(), patience
        self._readonly = readonly
        self.turns = threading.BoundedSemaphore(_TURNS)
        self._borrowed = threading.BoundedSemaphore(_BORROWED)
        self._idle: list[tuple[Any, float]] = []  # with when they were given back
        self._closed = False

    @contextmanager
    def borrow(self, doing: str, long: bool = False) -> Iterator[Any]:
        """A connection; errors name the operation and the database. A `long` one may take any time."""
        with self._borrowed, self.errors(doing):
            db = self.take()
            within = db.answers_within
            try:
                db.answers_within = None if long else within
                yield db
                db.answers_within = within
            except BaseException:  # an interrupt may have left it in the middle of a query
                self.drop(db)
                raise
            self.give_back(db)

    @contextmanager
    def errors(self, doing: str) -> Iterator[None]:
        """The driver's errors as this package's."""
        try:
            yield
        except self.driver.Error as error:
            raise self._translated(doing, error) from None

    def take(self) -> Any:
        """A connection, to be given back or dropped."""
        return self._from_idle() or self._connected()

    def give_back(self, db: Any) -> None:
        """Keep a connection for the next use."""
        if self._closed:
            db.close()
        elif not db.closed:
            self._idle.append((db, time.monotonic()))

    def drop(self, db: Any) -> None:
        """Close a connection that may be in any state; the server ends what it was doing."""
        with suppress(self.driver.Error):
            db.close()

    def close(self) -> None:
        """Close what is idle now, and the others when they are given back."""
        self._closed = True
        self._close_idle()

    def leave_open(self) -> list[Any]:
        """In a forked child: the parent's connections, never to be used or closed here."""
        idle, self._idle, self._closed = self._idle, [], True
        return idle

    def patiently(self, attempt: Callable[[], T]) -> T:
        """Try again for some seconds while the database cannot be reached."""
        deadline, pause = time.monotonic() + (self._patience or PATIENCE), 0.02
        while True:
            try:
                return attempt()
            except StoreUnavailableError:
                if self._closed or time.monotonic() + pause > deadline:
                    raise
            self._close_idle()  # they are gone as well
            time.sleep(pause)
            pause = min(2 * pause, 0.5)

    def _from_idle(self) -> Any:
        """A connection that was given back lately; None if there is none."""
        with suppress(IndexError):  # another thread may take the last one
            while True:
                db, since = self._idle.pop()
                if not db.closed and time.monotonic() - since < 0.5 * IDLE_SECONDS:
                    return db
                db.close()
        return None

    def _close_idle(self) -> None:
        with suppress(IndexError):
            while True:
                self._idle.pop()[0].close()

    def _translated(self, doing: str, error: Exception) -> StoreError:
        """An error of the driver as one of this package, in one line."""
        what = " ".join(str(error).split())
        state = getattr(error, "sqlstate", None) or ""
        if state == _LOCK_NOT_AVAILABLE:
            return StoreBusyError(
                f"could not {doing} {self.address}: another process has held the lock for "
                f"{LOCK_SECONDS:g} seconds; the ledger is as before. Try again"
            )
        lost = isinstance(error, self.driver.OperationalError) and (not state or state[:2] in ("08", "57"))
        if lost:
            return StoreUnavailableError(
                f"could not {doing} {self.address}: the database cannot be reached ({what}). "
                "Check that it runs, and the address, then try again"
            )
        return StoreError(f"could not {doing} {self.address}: {what}; the ledger is as before. Try again")

    def _connected(self) -> Any:
        conninfo = self.driver.conninfo
        try:
            given = conninfo.conninfo_to_dict(self.address.conninfo)
        except self.driver.ProgrammingError:  # its message may hold the password
            raise StoreError(
                f"{self.address} is not an address that PostgreSQL's library understands; expected "
                "postgresql://user:password@host:port/database?option=value"
            ) from None
        hasty = _HASTY if self._patience else {}
        db = _connection_class(self.driver).connect(**{**_DEFAULTS, **hasty, **given}, autocommit=True)
        db.answers_within = _HASTY_SECONDS if self._patience else ANSWER_SECONDS
        settings = [
            f"SET search_path = {self.address.schema}",
            f"SET lock_timeout = '{LOCK_SECONDS:g}s'",
            f"SET idle_session_timeout = '{IDLE_SECONDS:g}s'",
            f"SET idle_in_transaction_session_timeout = '{IDLE_SECONDS:g}s'",
            "SELECT set_config('synchronous_commit', 'on', false) "
            "WHERE current_setting('synchronous_commit') = 'off'",  # what is acknowledged is on the disk
        ]
        if self._readonly:
            settings.append("SET default_transaction_read_only = on")
        try:
            db.execute("; ".join(settings))
        except BaseException:
            db.close()
            raise
        return db


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

        def attempt() -> Any:
            with self.connections.borrow("read") as db:
                return db.execute(postgres_queries()[query], as_bytes(values), binary=True).fetchall()

        return list(self.connections.patiently(attempt))

    def save_snapshot(self, *values: str | int | bytes) -> bool:
        """Keep a snapshot; whether it was kept."""
        with self.connections.borrow("save a snapshot in", long=True) as db:
            return bool(db.execute(postgres_queries()["save_snapshot"], as_bytes(values)).rowcount > 0)

    def finish_erasure(self) -> None:
        """Rewrite the tables if bytes of forgotten lines may be left in their files.

        VACUUM would keep what an older transaction of anybody may still see; a table that is altered is
        written with what is there now.
        """
        marks = self.read("erasures")
        if not marks:
            return
        sql = postgres_queries()
        with self.connections.borrow("erase forgotten lines from", long=True) as db, db.transaction():
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
        remedy = "back it up, then run: sigma-mem db upgrade URL"
        refuse_version(connections.address, version, len(postgres_scripts()), remedy)


def upgrade_tables(connections: Connections) -> tuple[int, int]:
    """Apply the missing migrations, all or none; return the version before and after."""
    address, newest = connections.address, len(postgres_scripts())
    with connections.borrow("upgrade", long=True) as db, db.transaction():
        db.execute("SELECT pg_advisory_xact_lock(%s)", [advisory_key(address.schema, "upgrade")])
        db.execute(f"CREATE SCHEMA IF NOT EXISTS {address.schema}")
        before = _version(db)
        if before > newest:
            refuse_version(address, before, newest, "")
        if before == 0:
            db.execute("CREATE TABLE ledger_version (version integer NOT NULL)")
            db.execute("INSERT INTO ledger_version VALUES (0)")
        for script in postgres_scripts()[before:]:
            db.execute(script)
        db.execute("UPDATE ledger_version SET version = %s", [newest])
        return before, newest


def upgrade_postgres(url: str | os.PathLike[str]) -> tuple[int, int]:
    """Bring a memory's tables to the newest version; return the version before and after."""
    with closing(Connections(PostgresAddress.parse(url))) as connections:
        return upgrade_tables(connections)


def _version(db: Any) -> int:
    """The version of the tables; 0 if there are none."""
    if not db.execute("SELECT to_regclass('ledger_version') IS NOT NULL").fetchone()[0]:
        return 0
    return int(db.execute("SELECT version FROM ledger_version").fetchone()[0])
