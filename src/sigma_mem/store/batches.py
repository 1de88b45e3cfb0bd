"""Records on their way to a database: one batch is being written while the next one fills."""

import threading
from collections.abc import Callable, Sequence
from functools import partial
from queue import SimpleQueue

from sigma_mem.errors import StoreError
from sigma_mem.store.base import Failed, Record
from sigma_mem.store.rows import Queued

Settled = Callable[["Batch", StoreError | None], None]
CAPACITY = 4096  # records that may wait before `append` does: back-pressure, not a limit on one append


class Batch:
    """Records that become durable together; the `Ticket` of every one of them.

    A signal handler may raise between any two steps of a thread that appends. So a record is in the batch
    from one step on, when ``records`` grows, and the indexes follow when something is looked up. Who waits
    does so for a lock of its own: an interrupt that left a shared one locked would keep all others waiting.

    ``hurry`` is called when somebody begins to wait.
    """

    def __init__(self, hurry: Callable[[], None] = lambda: None) -> None:
        self.records: list[Queued] = []
        self.wanted = 0  # how many wait
        self.jobs: list[tuple[Callable[[], None], Failed]] = []  # to be done by the writer afterwards
        self.listeners: list[Settled] = []  # called by the writer once it is settled
        self._hurry = hurry
        self._by_id: dict[tuple[str, str, str], Record] = {}
        self._by_event: dict[tuple[str, str], dict[int, Record]] = {}
        self._indexed = 0
        self._error: StoreError | None = None
        self._settled = False
        self._waiting: list[threading.Lock] = []  # each locked until this is settled

    def find(self, namespace: str, kind: str, id: str) -> Record | None:
        """The record of this kind and id, if it is in the batch."""
        self._index()
        return self._by_id.get((namespace, kind, id))

    def of_event(self, namespace: str, event: str) -> list[Record]:
        """The event's records in the batch, in order."""
        self._index()
        return list(self._by_event.get((namespace, event), {}).values())

    def _index(self) -> None:
        for namespace, record, *_ in self.records[self._indexed :]:  # to do it twice does no harm
            self._by_id[namespace, record.kind, record.id] = record
            if record.event:
                self._by_event.setdefault((namespace, record.event), {})[record.seq] = record
            self._indexed += 1

    def settle(self, error: StoreError | None = None) -> None:
        """Wake everyone who waits; ``error`` says why the records were dropped, if they were."""
        self._error = error
        self._settled = True
        for lock in self._waiting:
            lock.release()
        for call in self.listeners:
            call(self, error)

    def hurry(self) -> None:
        """Say that one more waits."""
        before = self.wanted
        self.wanted = before + 1
        if not before:
            self._hurry()

    def drain(self) -> None:
        """Return once settled: durable or dropped."""
        if self._settled:
            return
        self.hurry()
        lock = threading.Lock()
        lock.acquire()
        self._waiting.append(lock)
        if not self._settled:  # else it may have been settled before it knew of this lock
            lock.acquire()

    def wait(self) -> None:
        """Return once durable; raise StoreError if nothing of it was written."""
        self.drain()
        if self._error is not None:  # a new one for each thread: a traceback belongs to its raiser
            raise type(self._error)(*self._error.args) from self._error


class BatchQueue:
    """The queue in front of a thread that writes; `find` and `of_event` see what is not durable yet."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._lock = threading.RLock()  # the garbage collector may call `stop` in a thread that holds it
        self._bell: SimpleQueue[None] = SimpleQueue()  # a Condition may lose a wake-up to an interrupt
        self._writing: Batch | None = None
        self._filling = self._new_batch()
        self._last = 0  # number of the last durable record
        self._stopped = False

    def find(self, namespace: str, kind: str, id: str) -> Record | None:
        """A record that is not durable yet."""
        with self._lock:
            for batch in self._batches():
                if (found := batch.find(namespace, kind, id)) is not None:
                    return found
            return None

    def of_event(self, namespace: str, event: str) -> list[Record]:
        """The event's records that are not durable yet, in order."""
        with self._lock:
            return [r for batch in self._batches() for r in batch.of_event(namespace, event)]

    def drain(self) -> None:
        """Wait until all that is queued now is settled: written or dropped."""
        for batch in self._queued():
            batch.drain()

    def flush(self) -> None:
        """Return once all that is queued now is durable; raise StoreError if it cannot be."""
        for batch in self._queued():
            batch.wait()

    def when_settled(self, call: Settled) -> Batch | None:
        """Have a thread call this once all that is queued now is settled; None if nothing is queued.

        The same call is made once for each batch, with the batch and why it was dropped, if it was.
        """
        with self._lock:  # a batch is settled after it has left the queue, so none is missed
            queued = self._queued()
            if not queued:
                return None
            last = queued[-1]  # where an earlier one is dropped, so is this
            if call not in last.listeners:
                last.listeners.append(call)
        last.hurry()
        return last

    def _wait_for_room(self) -> None:
        while (full := self._full_batch()) is not None:
            full.drain()

    def _full_batch(self) -> Batch | None:
        """The batch to wait for until there is room; None where there is."""
        with self._lock:
            if len(self._filling.records) < self._capacity or self._stopped:
                return None
            return self._filling if self._writing is None else self._writing

    def _next_batch(self) -> Batch | None:
        """Begin to write what is queued; None if nothing is. Holds the lock."""
        if not self._filling.records:
            return None
        self._writing, self._filling = self._filling, self._new_batch()
        return self._writing

    def _newest(self) -> int:
        """Number of the last record that is queued or durable. Holds the lock."""
        for batch in reversed(self._batches()):
            if batch.records:
                return batch.records[-1].record.seq
        return self._last

    def _new_batch(self) -> Batch:
        return Batch(partial(self._bell.put, None))

    def _queued(self) -> list[Batch]:
        with self._lock:
            return [batch for batch in self._batches() if batch.records]

    def _batches(self) -> list[Batch]:
        return [self._filling] if self._writing is None else [self._writing, self._filling]


def numbered(unit: Sequence[Queued], first: int) -> list[Queued]:
    """The records of a unit with their numbers."""
    return [q._replace(record=q.record._replace(seq=seq)) for seq, q in enumerate(unit, first)]
