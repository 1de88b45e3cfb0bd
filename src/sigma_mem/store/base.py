"""What a store must do: keep an append-only ledger and a snapshot per namespace.

The ledger is the truth; a snapshot is derived state that a replay must reproduce. The store knows nothing of
what a record means, except that feedback has a source: bodies are bytes.
"""

import os
import weakref
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from sigma_mem.errors import ConflictError, InputError, StoreError

LEDGER_FORMAT = 1  # of exported files, and the version that the numbered SQL scripts lead to
SNAPSHOT_FORMAT = 1


class Record(NamedTuple):
    """One line of the ledger."""

    kind: str  # "decision", "feedback" …
    id: str  # unique within (namespace, kind)
    event: str  # the event it belongs to, "" if it belongs to none
    body: bytes
    source: str | None = None  # sources of feedback
    seq: int = 0  # position in its namespace's ledger, from 1, given by `append`


class Erased(NamedTuple):
    """What is left of a line that was forgotten; its kind, its event and its place stay.

    A decision keeps its id, which is the event's.
    """

    id: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Derived state after the ledger's record ``seq``, as bytes the session understands."""

    seq: int
    body: bytes


class Ticket(Protocol):
    """A promise that appended records are durable."""

    def wait(self) -> None:
        """Return once durable; raise StoreError if they could not be written (then none of them was)."""


Failed = Callable[[StoreError], None]


class Store(Protocol):
    """Append-only ledger plus snapshots, for any number of namespaces. Thread-safe.

    `append` gives sequence numbers at once and in call order, and returns before the bytes are durable:
    writers batch (group commit), and callers that need durability wait on the ticket. If a namespace's
    records cannot be written, their tickets fail, and so do those of records queued behind them. Nothing of
    them is in the ledger. Later appends work again once the cause (such as a full disk) is gone. They get the
    sequence numbers that follow what is durable. Other namespaces go on. Reads see every record appended so
    far that has not failed. A closed store raises StoreError.
    """

    readonly: bool = False  # whether another process may be appending, and this one cannot
    shared: bool = False  # whether other processes may append while this one can

    def epoch(self, namespace: str) -> int:
        """How often records of a namespace were dropped, or lost by a database that failed over.

        Callers that derive state from records rebuild it from the ledger when this has changed.
        """
        return 0

    def turn(self, namespace: str, urgent: bool = False) -> AbstractContextManager[object]:
        """Keep other processes from appending to a namespace meanwhile; needed if the store is `shared`.

        With `urgent`, a turn that is about to end is joined: for a thread that others of this process may
        wait for. Raises StoreError if it takes too long.
        """
        return nullcontext()

    def is_current(self, namespace: str, seq: int) -> bool:
        """Whether line `seq` of a namespace is still the last one."""

    def append(
        self, namespace: str, records: Sequence[Record], epoch: int | None = None, after: int | None = None
    ) -> tuple[int, Ticket]:
        """Queue records as one unit; return the sequence number of the last, and a ticket.

        Raises ConflictError, and appends none of them, if a (kind, id) is already there. Callers that derived
        the records from all lines so far give the epoch and the last line: if it is no longer the last one,
        or lines were dropped meanwhile, StoreError. They chose new ids, so durable ones are not looked up.
        """

    def records(self, namespace: str, after: int = 0, until: int | None = None) -> Iterator[Record]:
        """Records of a namespace in order, with after < seq (≤ until)."""

    def find(self, namespace: str, kind: str, id: str) -> Record | None:
        """The record of this kind and id, if any."""

    def of_event(self, namespace: str, event: str) -> list[Record]:
        """All records that belong to an event, in order."""

    def of_source(self, namespace: str, source: str, until: int | None = None) -> Iterator[Record]:
        """Records that name this source, in order, with seq ≤ until."""

    def sources(self, namespace: str) -> dict[str, int]:
        """Every source that gave feedback, sorted, and how many records."""

    def save_snapshot(
        self, namespace: str, snapshot: Snapshot, epoch: int | None = None, failed: Failed | None = None
    ) -> None:
        """Replace the namespace's snapshot by a later one, after all records up to its seq are durable.

        With the epoch in which the state was derived, a snapshot of records that are gone since is refused
        with StoreError. With ``failed`` it may return before that is done, and ``failed`` gets a StoreError
        that comes later.
        """

    def load_snapshot(self, namespace: str) -> Snapshot | None:
        """The last snapshot; None if there is none, it is damaged, or it is not of this ledger."""

    def erase(self, namespace: str, lines: Mapping[int, Erased], record: Record) -> None:
        """Leave only this of some lines, and append the record of that.

        One unit, durable when it returns. The namespace's snapshot is dropped, and no byte of what was erased
        is left in a file of the store.
        """

    def namespaces(self) -> list[str]:
        """Names that have at least one record, sorted."""

    def verify(self) -> int:
        """Check every line, and the database's own integrity; return how many lines there are."""

    def flush(self, namespace: str | None = None) -> None:
        """Return once everything queued now, of a namespace or of all, is durable; else StoreError."""

    def when_settled(self, namespace: str, call: Callable[[Any, StoreError | None], None]) -> Any | None:
        """What a namespace has queued now; a thread calls ``call`` with it once it is durable or dropped.

        The second argument is the reason if it was dropped, and None if it is durable. For callers that
        cannot wait. Returns None if nothing is queued.
        """

    def close(self) -> None:
        """Flush and release; idempotent."""


# --- arguments ---------------------------------------------------------------------------


def refuse_unwritable(*names: object) -> None:
    """InputError for a name that is not text, or has no UTF-8 form."""
    for name in names:
        if not isinstance(name, str):
            raise InputError(f"got {name!r} as a name or id; expected text")
        if not name.isascii():
            try:
                name.encode()
            except UnicodeEncodeError as error:
                raise InputError(f"got text that is not valid Unicode ({error}); clean it first") from error


def refuse_bad_records(namespace: str, records: Sequence[Record]) -> None:
    """InputError for records whose names have no UTF-8 form, or whose bodies are not bytes."""
    for record in records:
        source = () if record.source is None else (record.source,)
        refuse_unwritable(namespace, record.kind, record.id, record.event, *source)
        if not isinstance(record.body, bytes):
            raise InputError(
                f"the body of {record.kind} {record.id!r} is {record.body!r:.60}; expected bytes"
            )


def refuse_known(
    namespace: str,
    records: Sequence[Record],
    known: Container[tuple[str, str]],
    exists: Callable[[str, str, str], bool] | None = None,
) -> None:
    """Raise unless there are records, none of a kind and id that is ``known``, ``exists`` or comes twice."""
    if not records:
        raise InputError("got no records to append; expected at least one")
    new: set[tuple[str, str]] = set()
    for r in records:
        key = r.kind, r.id
        if key in known or (exists is not None and exists(namespace, *key)):
            raise ConflictError(f"{r.kind} {r.id!r} is already in namespace {namespace!r}; use another id")
        if key in new:
            raise ConflictError("the same kind and id occurs twice in one append; use another id")
        new.add(key)


def refuse_older_state(namespace: str, epoch: int | None, now: int, after: int | None, last: int) -> None:
    """StoreError if the caller's state is not the one after the last line."""
    if epoch is not None and epoch != now:
        raise StoreError(
            "records that this depends on could not be written; nothing was changed. "
            "Rebuild from the ledger, then try again"
        )
    if after is not None and after != last:
        raise StoreError(f"others appended to {namespace!r} meanwhile; nothing was changed. Try again")


def refuse_absent_line(seq: int, last: int) -> None:
    """InputError for a snapshot of a line that is not there."""
    if not 1 <= seq <= last:
        raise InputError(f"got a snapshot of record {seq}, the ledger ends at {last}")


# --- forks -------------------------------------------------------------------------------


class Inherited(Protocol):
    """Something that a forked child finds open."""

    def after_fork(self) -> object:
        """In the child: replace locks, or close. What is returned is never released there.

        A child has the forking thread only. So a lock that another thread held is replaced there, and what
        has a file, a connection or a thread is closed: those are the parent's.
        """


_known: weakref.WeakSet[Inherited] = weakref.WeakSet()
_kept: list[object] = []


def tell_after_fork(one: Inherited) -> None:
    """Have `after_fork` called in every forked child."""
    _known.add(one)


def _in_child() -> None:
    _kept.extend([one.after_fork() for one in list(_known)])


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
