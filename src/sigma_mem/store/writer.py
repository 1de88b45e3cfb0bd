"""Group commit: many threads append, and one thread writes everything queued in one transaction.

A commit waits for the disk, and while it waits the next batch fills. So threads that write at the
same time share the cost of durability, and a single one never waits for others. Lines that nobody waits
for are written a little later, together with those that come meanwhile: a transaction costs as much as many
lines.
"""

import threading
import time
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue

from sigma_mem.errors import StoreError
from sigma_mem.store.base import Erased, Record, refuse_known, refuse_older_state
from sigma_mem.store.rows import Space

Settled = Callable[["Batch", StoreError | None], None]
CAPACITY = 4096  # records that may wait before `append` does: back-pressure, not a limit on one append
_LINGER_SECONDS = 0.02  # that records which nobody waits for may stay in the queue
_MANY = 256  # of which are written at once
_SEVERAL = 3  # callers that waited for a commit: then more will come, and the next one waits for them
_PAUSE_SECONDS = 0.003  # that it waits; each commit takes the interpreter from the callers a dozen times


class Batch:
    """Records of a namespace that become durable together; the `Ticket` of every one of them.

    A signal handler may raise between any two steps of a thread that appends, so records come with one step.
    Every thread waits for a lock of its own: an interrupt that left a shared one locked would keep all
    others waiting. The bell rings when somebody begins to wait.
    """

    def __init__(self, bell: SimpleQueue[None]) -> None:
        self.records: dict[tuple[str, str], Record] = {}  # by kind and id
        self.erases: Mapping[int, Erased] = {}
        self.wanted = 0  # how many wait
        self.listeners: list[Settled] = []  # called by the writer once it is settled
        self._bell = bell
        self._error: StoreError | None = None
        self._settled = False
        self._waiting: list[threading.Lock] = []  # each locked until this is settled

    def settle(self, error: StoreError | None = None) -> None:
        """Wake all that wait; ``error`` is why the records were dropped, if they were."""
        self._error = error
        self._settled = True
        for lock in self._waiting:
            lock.release()
        for call in self.listeners:
            call(self, error)

    def hurry(self) -> None:
        """Count one more that waits."""
        before = self.wanted
        self.wanted = before + 1
        if not before:
            self._bell.put(None)

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


class Tail:
    """The end of a namespace's ledger in this process: what is durable, and what is queued behind it.

    One batch is written while the next one fills.

    Attributes
    ----------
    space : Space, optional
        The namespace as this process last saw or wrote it; None before its first line, and while it is not
        known whether a commit was done.
    epoch : int
        How often queued lines were dropped, or durable ones were gone.
    batches : list of Batch
        What is queued: the last one fills, and one before it is being written.
    """

    def __init__(self, namespace: str, bell: SimpleQueue[None]) -> None:
        self.namespace, self.bell, self.capacity = namespace, bell, CAPACITY
        self.lock = threading.RLock()  # the garbage collector may close a store in a thread that holds it
        self.space: Space | None = None
        self.epoch = 0
        self.stopped = False
        self.batches = [Batch(bell)]

    @property
    def durable(self) -> int:
        """The last durable line."""
        return 0 if self.space is None else self.space.lines

    def newest(self) -> int:
        """The last line, queued or durable."""
        with self.lock:
            return self.durable + sum([len(batch.records) for batch in self.batches])

    def find(self, kind: str, id: str) -> Record | None:
        """A record that is not durable yet."""
        for batch in self.batches:
            if (kind, id) in batch.records:
                return batch.records[kind, id]
        return None

    def of_event(self, event: str) -> list[Record]:
        """The event's records that are not durable yet, in order."""
        with self.lock:
            return [r for batch in self.batches for r in batch.records.values() if r.event == event]

    def append(
        self,
        records: Sequence[Record],
        epoch: int | None,
        after: int | None,
        exists: Callable[[str, str, str], bool],
        erases: Mapping[int, Erased] | None = None,
    ) -> tuple[int, Batch]:
        """Give the records their numbers, queue them as one unit; the ticket is their batch."""
        while len(self.batches[-1].records) >= self.capacity and not self.stopped:
            self.batches[0].drain()
        with self.lock:
            self.refuse_closed_queue()
            last = self.newest()
            refuse_older_state(self.namespace, epoch, self.epoch, after, last)
            looked_up = epoch is None and after is None
            queued = ChainMap(*[batch.records for batch in self.batches])
            refuse_known(self.namespace, records, queued, exists if looked_up else None)
            new = {(r.kind, r.id): r._replace(seq=seq) for seq, r in enumerate(records, last + 1)}
            batch = self.batches[-1]
            if erases:
                batch.erases = {**batch.erases, **erases}
            waiting = len(batch.records)
            batch.records.update(new)  # the one step from which on they are queued
            if not waiting or waiting < _MANY <= waiting + len(new):
                self.bell.put(None)
            return last + len(new), batch

    def refuse_closed_queue(self) -> None:
        """StoreError if nothing may be appended now. Holds the lock."""
        if self.stopped:
            raise StoreError("the store is closed; open it again to write")

    def drain(self) -> None:
        """Wait until all that is queued now is settled: written or dropped."""
        for batch in self._queued():
            batch.drain()

    def flush(self) -> None:
        """Return once all that is queued now is durable; raise StoreError if it cannot be."""
        for batch in self._queued():
            batch.wait()

    def listen(self, call: Settled, urgent: bool = False) -> Batch | None:
        """Have a thread call this once all that is queued now is settled; None if nothing is queued.

        An `urgent` one is called before others, and what is queued is written at once.
        """
        with self.lock:  # a batch is settled after it has left the queue, so none is missed
            queued = self._queued()
            if not queued:
                return None
            last = queued[-1]  # if an earlier one is dropped, so is this
            if call not in last.listeners:
                last.listeners.insert(0 if urgent else len(last.listeners), call)
        if urgent:
            last.hurry()
        return last

    # --- the thread that writes ----------------------------------------------------------

    def take(self) -> Batch | None:
        """Begin to write what is queued; None if nothing is."""
        with self.lock:
            first = self.batches[0]
            if not first.records:
                return None
            if len(self.batches) == 1:
                self.batches.append(Batch(self.bell))
            return first

    def written(self, space: Space) -> None:
        """What was taken is durable."""
        with self.lock:
            batch, self.batches, self.space = self.batches[0], self.batches[1:], space
        batch.settle()

    def drop(self, error: StoreError) -> None:
        """Drop what was taken and everything queued behind it; read the ledger's end again."""
        with self.lock:
            dropped, self.space = self._queued(), None
            if dropped:
                self.batches = [Batch(self.bell)]
                self.epoch += 1
        for batch in dropped:
            batch.settle(error)

    def seen(self, known: Space | None, now: Space | None, held: bool) -> bool:
        """Take in a namespace as it was read, after `known` was what this process knew.

        Returns False, and moves the epoch, if the ledger does not hold what was known (``held``).
        """
        with self.lock:
            if self.space is not known:  # this process wrote meanwhile: what was read is older
                return True
            if not self._queued():  # else numbers were given that follow what was known
                self.space = now
            if not held:
                self.epoch += 1
            return held

    def _queued(self) -> list[Batch]:
        return [batch for batch in self.batches if batch.records]


class Writer:
    """The thread that writes what all namespaces of a file have queued.

    Parameters
    ----------
    write : callable
        Writes the batches of some tails as one transaction, and returns their namespaces after it, or raises
        StoreError and has written nothing.
    ended : callable
        Called once by the thread when it has ended.
    """

    def __init__(
        self, write: Callable[[Sequence[tuple[Tail, Batch]]], Sequence[Space]], ended: Callable[[], None]
    ) -> None:
        self._write, self._ended = write, ended
        self.lock = threading.RLock()
        self.bell: SimpleQueue[None] = SimpleQueue()  # a Condition may lose a wake-up to an interrupt
        self.tails: list[Tail] = []
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="sigma-mem-writer", daemon=True)

    def start(self) -> None:
        """Begin to write what is appended."""
        self._thread.start()

    def new_tail(self, namespace: str) -> Tail:
        """The end of a namespace, which this thread writes from now on."""
        with self.lock:
            tail = Tail(namespace, self.bell)
            tail.stopped = self._stopped
            self.tails.append(tail)
            return tail

    def stop(self) -> bool:
        """Write what is queued, then end the thread; later appends are refused. Whether it had begun."""
        with self.lock:
            self._stopped = True
            for tail in self.tails:
                tail.stopped = True
        self.bell.put(None)
        if self._thread.ident is None:
            return False
        if threading.current_thread() is not self._thread:
            self._thread.join()
        return True

    def _run(self) -> None:
        try:
            while (tails := self._ready()) is not None:
                wanted = sum(tail.batches[-1].wanted for tail in tails)
                self._commit([(tail, batch) for tail in tails if (batch := tail.take()) is not None])
                if wanted >= _SEVERAL:
                    time.sleep(_PAUSE_SECONDS)
        finally:  # however this thread ended, nobody may wait for it forever
            with self.lock:
                self._stopped = True
                tails = list(self.tails)
            for tail in tails:
                with tail.lock:
                    tail.stopped = True
                tail.drop(StoreError("the writer has ended; close the store and open it again"))
            self._ended()

    def _commit(self, taken: Sequence[tuple[Tail, Batch]]) -> None:
        """Write batches together; if that cannot be done, each alone, so that only what is at fault fails."""
        try:
            spaces = self._write(taken)
        except StoreError as error:
            if len(taken) == 1:
                taken[0][0].drop(error)
                return
            for each in taken:
                self._commit([each])
            return
        for (tail, _), space in zip(taken, spaces, strict=True):
            tail.written(space)

    def _ready(self) -> list[Tail] | None:
        """Those with something to write, once somebody waits for it or it waited itself; None at the end."""
        lingered = False
        while True:
            with self.lock:
                filled = [tail for tail in self.tails if tail.batches[-1].records]
                many = sum(len(tail.batches[-1].records) for tail in filled) >= _MANY
                wanted = any(tail.batches[-1].wanted for tail in filled)
                if filled and (lingered or many or wanted or self._stopped):
                    return filled
                if self._stopped:
                    return None
            lingered = not rang(self.bell, _LINGER_SECONDS if filled else None)


def rang(bell: SimpleQueue[None], seconds: float | None) -> bool:
    """Whether a bell rings within this many seconds; waits as long as it takes for None."""
    with suppress(Empty):
        bell.get(timeout=seconds)
        return True
    return False
