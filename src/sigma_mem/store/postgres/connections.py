"""Where a PostgreSQL memory is, and connections to it: made when needed, kept, dropped when they break."""

import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from sigma_mem.errors import InputError, StoreBusyError, StoreError, StoreUnavailableError
from sigma_mem.extras import require

PATIENCE = 10.0  # seconds that a call waits for a database that went away
LOCK_SECONDS = 10.0  # that a statement waits for a lock
IDLE_SECONDS = 30.0  # after which the server ends a connection, and with it the turn of a process that hangs
_TURNS, _BORROWED = 8, 4  # connections at most
_LOCK_NOT_AVAILABLE = "55P03"
_DEFAULTS = {  # of libpq, if the address does not say
    "application_name": "sigma-mem",
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 2,
    "tcp_user_timeout": 15_000,
}
SCHEMA = "sigma_mem"  # of PostgreSQL, where an address names none
_SCHEMA_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")
T = TypeVar("T")


def psycopg() -> Any:
    """The driver."""
    return require("psycopg", extra="postgres", purpose="a memory in PostgreSQL")


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
        """Read an address; InputError, without any of its text, where it is none."""
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

    def __init__(self, address: PostgresAddress, *, readonly: bool = False) -> None:
        self.address, self.driver = address, psycopg()
        self._readonly = readonly
        self.turns = threading.BoundedSemaphore(_TURNS)
        self._borrowed = threading.BoundedSemaphore(_BORROWED)
        self._idle: list[tuple[Any, float]] = []  # with when they were given back
        self._closed = False

    @contextmanager
    def borrow(self, doing: str) -> Iterator[Any]:
        """A connection; errors say what was being done, and which database."""
        with self._borrowed, self.errors(doing):
            db = self.take()
            try:
                yield db
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
        deadline, pause = time.monotonic() + PATIENCE, 0.02
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
                f"{self.address} is no address that PostgreSQL's library understands; expected "
                "postgresql://user:password@host:port/database?option=value"
            ) from None
        db = self.driver.connect(**{**_DEFAULTS, **given}, autocommit=True)
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
