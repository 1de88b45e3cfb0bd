"""What a store must do: keep an append-only ledger and a snapshot per namespace.

The ledger is the truth; a snapshot is derived state that a replay must reproduce. The store knows nothing of
what a record means, but that feedback has a source: bodies are bytes.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from sigma_mem.errors import StoreError

LEDGER_FORMAT = 1  # of exported files, and the version that the numbered SQL scripts lead to
SNAPSHOT_FORMAT = 1


class Record(NamedTuple):
    """One line of the ledger."""

    kind: str  # "decision", "feedback" …
    id: str  # unique within (namespace, kind)
    event: str  # the event it belongs to, "" where it belongs to none
    body: bytes
    source: str | None = None  # who gave feedback
    seq: int = 0  # position in the store's ledger, or in its namespace's, from 1, given by `append`


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


class Turns(Protocol):
    """Who may append now, where several processes write one ledger."""

    def enter_turn(self, namespace: str, urgent: bool = False) -> object:
        """Wait until this process may append to a namespace, and keep others out until it is left.

        Returns what `leave_turn` takes. With `urgent`, a turn that is about to end is joined: for a thread
        that others of this process may wait for. Raises StoreError where it takes too long.
        """

    def leave_turn(self, namespace: str, seat: Any) -> None:
        """Let others append once what was queued is written."""

    def is_current(self, namespace: str, seq: int) -> bool:
        """Whether line `seq` of a namespace, as this process read or wrote it, is still the last one."""

    def append_after(
        self, namespace: str, records: Sequence[Record], epoch: int | None, after: int | None
    ) -> tuple[int, Ticket]:
        """`Store.append`, refused with StoreError where another line than `after` is the last one.

        Who gives `after` knows all lines so far, and that no (kind, id) is among them; it is not looked up.
        """


class Store(Protocol):
    """Append-only ledger plus snapshots, for any number of namespaces. Thread-safe.

    `append` gives sequence numbers at once and in call order, and returns before the bytes are durable:
    writers batch (group commit), and who needs durability waits on the ticket. If a batch cannot be written,
    every ticket of that batch and of everything queued behind it fails, nothing of them is in the ledger, and
    later appends work again once the cause (a full disk, say) is gone; they get the sequence numbers that
    follow what is durable. Reads see every record appended so far that has not failed. A closed store raises
    StoreError.
    """

    @property
    def epoch(self) -> int:
        """How often appended records had to be dropped because they could not be written.

        Whoever derives state from what it appended rebuilds it from the ledger when this moved,
        also if it waits on no ticket.
        """

    @property
    def readonly(self) -> bool:
        """Whether another process may be appending, and this one cannot."""

    @property
    def turns(self) -> Turns | None:
        """Who gives turns to append, where other processes append as well; None where none can."""

    def append(
        self, namespace: str, records: Sequence[Record], epoch: int | None = None
    ) -> tuple[int, Ticket]:
        """Queue records as one unit; return the sequence number of the last, and a ticket.

        Raises ConflictError, and appends none of them, if a (kind, id) is already there. With the epoch in
        which they were derived, records that may depend on dropped ones are refused with StoreError; and
        since who gives it knows all records so far and chose new ids, durable ones need not be looked up.
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
        """Replace the namespace's snapshot, after all records up to its seq are durable.

        With the epoch in which the state was derived, a snapshot of records that were dropped
        since is refused with StoreError, although others have their numbers by now. With ``failed`` it may
        return before that is done, and ``failed`` gets a StoreError that comes later.
        """

    def load_snapshot(self, namespace: str) -> Snapshot | None:
        """The last snapshot, CRC-checked; None where there is none or it is damaged (replay then)."""

    def erase(self, namespace: str, bodies: Mapping[int, bytes], record: Record) -> None:
        """Replace the bodies of lines by smaller ones, and append the line that says so.

        One unit, durable when it returns. The lines keep number, kind, id and event, and their place in the
        chain. The namespace's snapshot is dropped, and no byte of the old bodies is left in a file.
        """

    def namespaces(self) -> list[str]:
        """Names that have at least one record, sorted."""

    def flush(self) -> None:
        """Return once everything queued now is durable; raise StoreError if it cannot be."""

    def when_settled(self, call: Callable[[Any, StoreError | None], None]) -> list[Any]:
        """What is queued now, in batches; a thread calls ``call`` with each once it is durable or dropped.

        The second argument says why it was dropped, and is None where it is durable. For who cannot wait.
        """

    def close(self) -> None:
        """Flush and release; idempotent."""
