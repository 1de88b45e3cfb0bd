"""Connections to a PostgreSQL database: made when needed, kept for the next use, dropped when they break."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from sigma_mem.errors import StoreBusyError, StoreError, StoreUnavailableError
from sigma_mem.extras import require
from sigma_mem.store.postgres.address import PostgresAddress

PATIENCE = 10.0  # seconds that a call waits for a database that went away
LOCK_SECONDS = 10.0  # that a statement waits for a lock
IDLE_SECONDS = 30.0  # after which a connection that could hold a turn is ended
_LOCK_NOT_AVAILABLE = "55P03"
_DEFAULTS = {  # of libpq, where the address does not say
    "application_name": "sigma-mem",
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 2,
    "tcp_user_timeout": 15_000,
}
T = TypeVar("T")


def psycopg() -> Any:
    """The driver."""
    return require("psycopg", extra="postgres", purpose="a memory in PostgreSQL")


class Connections:
    """At most so many connections at once, each used by one thread at a time."""

    def __init__(
        self, address: PostgresAddress, most: int, *, readonly: bool = False, for_turns: bool = False
    ) -> None:
        self.address, self.driver = address, psycopg()
        self._readonly, self._for_turns = readonly, for_turns
        self._free = threading.BoundedSemaphore(most)
        self._idle: list[tuple[Any, float]] = []  # with when they were given back
        self._closed = False

    @contextmanager
    def borrow(self, doing: str) -> Iterator[Any]:
        """A connection in autocommit mode; errors say what was being done, and which database."""
        db = self.take(doing)
        try:
            yield db
        except self.driver.Error as error:
            self.drop(db)
            raise self.translated(doing, error) from None
        except BaseException:  # an interrupt may have left it in the middle of a query
            self.drop(db)
            raise
        self.give_back(db)

    def take(self, doing: str) -> Any:
        """A connection, to be given back or dropped."""
        self._free.acquire()
        try:
            while self._idle:
                db, since = self._idle.pop()
                if not db.closed and time.monotonic() - since < 0.5 * IDLE_SECONDS:
                    return db
                db.close()
            return self._connected()
        except self.driver.Error as error:
            self._free.release()
            raise self.translated(doing, error) from None
        except BaseException:
            self._free.release()
            raise

    def give_back(self, db: Any) -> None:
        """Keep a connection for the next use."""
        if self._closed:
            db.close()
        elif not db.closed:
            self._idle.append((db, time.monotonic()))
        self._free.release()

    def drop(self, db: Any) -> None:
        """Close a connection that may be in any state; the server ends what it was doing."""
        with suppress(self.driver.Error):
            db.close()
        self._free.release()

    def close(self) -> None:
        """Close what is idle now, and the others when they are given back."""
        self._closed = True
        self._close_idle()

    def _close_idle(self) -> None:
        while self._idle:
            self._idle.pop()[0].close()

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

    def translated(self, doing: str, error: Exception) -> StoreError:
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
            "SELECT set_config('synchronous_commit', 'on', false) "
            "WHERE current_setting('synchronous_commit') = 'off'",  # what is acknowledged is on the disk
        ]
        if self._readonly:
            settings.append("SET default_transaction_read_only = on")
        if self._for_turns:  # of a process that hangs, the server ends the turn
            settings.append(f"SET idle_session_timeout = '{IDLE_SECONDS:g}s'")
            settings.append(f"SET idle_in_transaction_session_timeout = '{IDLE_SECONDS:g}s'")
        try:
            db.execute("; ".join(settings))
        except BaseException:
            db.close()
            raise
        return db
