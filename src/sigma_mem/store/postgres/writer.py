"""Appending to one namespace: threads queue records, and one thread takes turns and commits them.

During a turn a commit waits for the disk while the next batch fills, as on SQLite. A turn ends when nothing
is queued and nobody is about to append, and after a while in any case, so that other processes get theirs.
"""

import threading
import time
import weakref
from collections.abc import Sequence
from queue import Empty

from sigma_mem.errors import StoreError
from sigma_mem.store.assembly import Books
from sigma_mem.store.batches import Batch, BatchQueue, numbered
from sigma_mem.store.chain import START, Link, Space
from sigma_mem.store.postgres.tables import PostgresTables
from sigma_mem.store.postgres.turn import NamespaceTurn
from sigma_mem.store.rows import Queued
from sigma_mem.store.writer import refuse_known, refuse_other_epoch

FAIR_SECONDS = 0.02  # and commits, after which a turn takes no more threads in: other processes may wait
FAIR_COMMITS = 4
LINGER_SECONDS = 0.002  # that a turn waits for a thread that may append next
LONGEST_SECONDS = 10.0  # that a thread can hold up the end of a turn
_IDLE_SECONDS = 5.0  # after which the thread ends


class Epochs:
    """How often records had to be dropped, or were lost by the database, in any namespace."""

    def __init__(self, places: dict[str, Link]) -> None:
        self.now = 0
        self._places = places  # where chains were last known
        self._lock = threading.Lock()

    def advance(self) -> None:
        """Count one time more."""
        with self._lock:
            self.now += 1

    def lost_lines(self, namespace: str, space: Space | None) -> bool:
        """Whether lines that this process knows are gone; then all state is derived from the ledger again."""
        known = self._places.get(namespace, START)
        lines, head = (0, START.head) if space is None else (space.lines, space.head)
        if lines > known.lines or (lines, head) == (known.lines, known.head):
            return False
        self._places.pop(namespace, None)
        self.advance()
        return True

    def committed(self, namespace: str, space: Space) -> None:
        """Know where the chain of a namespace is after a commit."""
        self._places[namespace] = Link(space.lines, space.head, space.lines)


class Seat:
    """A thread's part in a turn; that of a thread that was interrupted is collected, and holds up nobody."""


class _Waiting(Batch):
    """Threads that wait for the next turn."""

    def __init__(self) -> None:
        super().__init__()
        self.seats: weakref.WeakSet[Seat] = weakref.WeakSet()


class NamespaceWriter(BatchQueue):
    """The queue of a namespace, and the thread that empties it during turns."""

    def __init__(self, tables: PostgresTables, namespace: str, epochs: Epochs) -> None:
        super().__init__()
        self._tables, self._namespace, self._epochs = tables, namespace, epochs
        self._seats: weakref.WeakSet[Seat] = weakref.WeakSet()
        self._waiting = _Waiting()
        self._open = self._full = False  # whether there is a turn, and takes no more threads in
        self._books = Books()
        self._thread: threading.Thread | None = None

    # --- threads that append -------------------------------------------------------------

    def enter(self, urgent: bool = False) -> Seat:
        """Wait for a turn and take part in it; `urgent` joins one that is to end."""
        while True:
            seat = Seat()
            with self._lock:
                if self._stopped:
                    raise StoreError(f"the store {self._tables.name} is closed; open it again to write")
                if self._open and (urgent or not self._full):
                    self._seats.add(seat)
                    return seat
                waiting = self._waiting
                waiting.seats.add(seat)
                self._wake()
            waiting.wait()
            with self._lock:
                if seat in self._seats:
                    return seat

    def leave(self, seat: Seat) -> None:
        """Give up a part in a turn."""
        with self._lock:
            self._seats.discard(seat)
        self._bell.put(None)

    def newest(self) -> int | None:
        """The number of the last line, if it is this process's turn; otherwise others may be appending."""
        with self._lock:
            return self._newest() if self._open else None

    def append(self, unit: Sequence[Queued], epoch: int | None, after: int | None) -> tuple[int, Batch]:
        """Give the records their numbers, and queue them as one unit. Holds a seat already."""
        self._wait_for_room()
        with self._lock:
            refuse_other_epoch(epoch, self._epochs.now)
            if not self._open or after not in (None, self._newest()):
                raise StoreError(
                    f"another process appended to {self._namespace!r} meanwhile; nothing was changed. "
                    "Try again"
                )
            look = self._is_known if after is None else self._is_queued  # who knows all lines chose new ids
            refuse_known(self._namespace, [q.record for q in unit], lambda key: look(*key))
            queued = numbered(unit, self._newest() + 1)
            self._filling.records += queued  # the one step from which on they are queued
            self._bell.put(None)
            return queued[-1].record.seq, self._filling

    def stop(self) -> None:
        """Write what is queued, then end the thread; later appends are refused."""
        with self._lock:
            self._stopped = True
            thread = self._thread
        self._bell.put(None)
        if thread is not None and thread.is_alive() and thread is not threading.current_thread():
            thread.join()

    def _is_queued(self, kind: str, id: str) -> bool:
        return self.find(self._namespace, kind, id) is not None

    def _is_known(self, kind: str, id: str) -> bool:
        return self._is_queued(kind, id) or self._tables.exists(self._namespace, kind, id)

    def _wake(self) -> None:
        if self._thread is None or not self._thread.is_alive():  # an interrupt may come before it starts
            name = f"sigma-mem-turns-{self._namespace}"
            self._thread = threading.Thread(target=self._run, name=name, daemon=True)
            self._thread.start()
        self._bell.put(None)

    # --- the thread that takes turns -----------------------------------------------------

    def _run(self) -> None:
        try:
            self._take_turns()
        except BaseException:  # however this thread ended, nobody may wait for it forever
            error = StoreError(
                f"the writer of {self._namespace!r} has ended; close the store and open it again"
            )
            with self._lock:
                self._stopped, self._thread = True, None
                waiting, self._waiting = self._waiting, _Waiting()
            waiting.settle(error)
            self._drop(error)
            raise

    def _take_turns(self) -> None:
        rang = True
        while True:
            with self._lock:
                if self._thread is not threading.current_thread():
                    return  # an interrupt came while it was started, and another one was started since
                wanted = bool(self._waiting.seats)
                if not wanted and (self._stopped or not rang):
                    self._thread = None
                    return
            if wanted:
                self._take_turn()
            else:
                rang = self._listen(_IDLE_SECONDS)

    def _listen(self, seconds: float) -> bool:
        """Wait until somebody rings; whether somebody did."""
        try:
            self._bell.get(timeout=seconds)
        except Empty:
            return False
        return True

    def _take_turn(self) -> None:
        try:
            turn = NamespaceTurn(self._tables, self._namespace, self._books)
        except StoreError as error:
            with self._lock:
                waiting, self._waiting = self._waiting, _Waiting()
            waiting.settle(error)
            return
        try:
            self._epochs.lost_lines(self._namespace, turn.space)
            with self._lock:
                waiting, self._waiting = self._waiting, _Waiting()
                self._seats = waiting.seats
                self._last, self._open, self._full = turn.lines, True, False
            waiting.settle()
            self._hold(turn)
        except StoreError as error:
            self._drop(error)
        finally:
            with self._lock:
                self._open = False
            self._books = turn.books
            turn.end()

    def _hold(self, turn: NamespaceTurn) -> None:
        """Commit what is queued until the turn ends."""
        start, commits, lingered = time.monotonic(), 0, False
        while True:
            with self._lock:
                held = time.monotonic() - start
                self._full = held > FAIR_SECONDS and commits >= FAIR_COMMITS
                batch, taken = self._next_batch(), bool(self._seats)
                if batch is None and (held > LONGEST_SECONDS or (not taken and (lingered or self._full))):
                    self._open = False
                    return
            if batch is None:
                rang = self._listen(0.05 if taken else LINGER_SECONDS)
                lingered = not taken and not rang
                continue
            turn.commit(batch.records)
            if turn.space is not None:
                self._epochs.committed(self._namespace, turn.space)
            commits, lingered = commits + 1, False
            with self._lock:
                self._last, self._writing = turn.lines, None
            batch.settle()

    def _drop(self, error: StoreError) -> None:
        """Drop everything queued; numbers continue after what the ledger has at the next turn."""
        with self._lock:
            dropped = self._queued()
            self._open = False
            self._writing, self._filling = None, self._new_batch()
            self._epochs.advance()
        for batch in dropped:
            batch.settle(error)
