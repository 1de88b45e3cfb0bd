"""Group commit: many threads append, and one thread writes everything queued in one transaction.

A commit waits for the disk, and while it waits the next batch fills. So threads that write at the
same time share the cost of durability, and a single one never waits for others. What nobody waits for is
written a little later, together with what comes meanwhile: a transaction costs as much as many lines.
"""

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty

from sigma_mem.errors import ConflictError, InputError, StoreError
from sigma_mem.store.base import Failed, Record
from sigma_mem.store.batches import CAPACITY, Batch, BatchQueue, numbered
from sigma_mem.store.rows import Queued
from sigma_mem.store.tables import Tables

_LINGER_SECONDS = 0.02  # that records which nobody waits for may stay in the queue
_MANY = 256  # of which are written at once
_SEVERAL = 3  # callers that waited for a batch: then more will come, and the next one waits for them
_PAUSE_SECONDS = 0.003  # that it waits; each commit takes the interpreter from the callers a dozen times


def refuse_unwritable(*names: object) -> None:
    """Raise for a name that is no text, or has no UTF-8 form, before anything is queued."""
    for name in names:
        if not isinstance(name, str):
            raise InputError(f"got {name!r} as a name or id; expected text")
        if not name.isascii():
            try:
                name.encode()
            except UnicodeEncodeError as error:
                raise InputError(f"got text that is not valid Unicode ({error}); clean it first") from error


def refuse_bad_records(namespace: str, records: Sequence[Record]) -> None:
    """Raise for records whose names have no UTF-8 form, or whose bodies are no bytes."""
    for record in records:
        source = () if record.source is None else (record.source,)
        refuse_unwritable(namespace, record.kind, record.id, record.event, *source)
        if not isinstance(record.body, bytes):
            raise InputError(
                f"the body of {record.kind} {record.id!r} is {record.body!r:.60}; expected bytes"
            )


def refuse_other_epoch(got: int | None, now: int) -> None:
    """Raise if the caller's state was derived before records were dropped: it may depend on them."""
    if got is not None and got != now:
        raise StoreError(
            "records that this depends on could not be written; nothing was changed. "
            "Rebuild from the ledger, then try again"
        )


def refuse_known(namespace: str, records: Sequence[Record], known: Callable[[tuple[str, str]], bool]) -> None:
    """Raise unless there are records, none of a (kind, id) that is ``known`` or comes twice."""
    if not records:
        raise InputError("got no records to append; expected at least one")
    keys = {(r.kind, r.id) for r in records}
    for kind, id in filter(known, keys):
        raise ConflictError(f"{kind} {id!r} is already in namespace {namespace!r}; use another id")
    if len(keys) < len(records):
        raise ConflictError("the same kind and id occurs twice in one append; use another id")


class Writer(BatchQueue):
    """The queue in front of the tables, and the thread that empties it.

    ``released`` is called once by the thread when it has ended and closed ``durable``; ``epoch`` counts how
    often queued records were dropped.
    """

    def __init__(self, durable: Tables, released: Callable[[], None], capacity: int = CAPACITY) -> None:
        super().__init__(capacity)
        self._durable, self._released = durable, released
        self._last = durable.last()
        self.epoch = 0
        self._thread = threading.Thread(target=self._run, name="sigma-mem-writer", daemon=True)

    def start(self) -> None:
        """Begin to write what is appended."""
        self._thread.start()

    def append(self, unit: Sequence[Queued], epoch: int | None) -> tuple[int, Batch]:
        """Give the records their numbers, queue them as one unit; the ticket is their batch."""
        self._wait_for_room()
        with self._lock:
            if self._stopped:
                raise StoreError("the store is closed; open it again to write")
            refuse_other_epoch(epoch, self.epoch)
            namespace = unit[0].namespace if unit else ""
            look = self._is_known if epoch is None else self._is_queued
            refuse_known(namespace, [q.record for q in unit], lambda key: look(namespace, *key))
            queued = numbered(unit, self._newest() + 1)
            waiting = len(self._filling.records)
            if not waiting or waiting < _MANY <= waiting + len(queued):
                self._bell.put(None)
            self._filling.records += queued  # the one step from which on they are queued
            return queued[-1].record.seq, self._filling

    def position(self) -> tuple[int, int]:
        """Sequence number of the last durable record, and the epoch."""
        with self._lock:
            return self._last, self.epoch

    def after_commit(self, job: Callable[[], None], failed: Failed) -> bool:
        """Do something once all that is queued now is written; False, and nothing done, if nothing is."""
        with self._lock:
            if not self._queued():
                return False
            self._batches()[-1 if self._filling.records else 0].jobs.append((job, failed))
            return True

    def stop(self) -> bool:
        """Write what is queued, then end the thread; later appends are refused. Whether it had begun."""
        with self._lock:
            self._stopped = True
        self._bell.put(None)
        if self._thread.ident is None:
            return False
        if threading.current_thread() is not self._thread:
            self._thread.join()
        return True

    def _is_queued(self, namespace: str, kind: str, id: str) -> bool:
        return any(batch.find(namespace, kind, id) is not None for batch in self._batches())

    def _is_known(self, namespace: str, kind: str, id: str) -> bool:
        return self._is_queued(namespace, kind, id) or self._durable.exists(namespace, kind, id)

    def _run(self) -> None:
        try:
            while (batch := self._take()) is not None:
                try:
                    self._durable.commit(batch.records)
                except StoreError as error:
                    self._drop(error)
                    continue
                with self._lock:
                    self._last, self._writing = batch.records[-1].record.seq, None
                batch.settle()
                for job, failed in batch.jobs:
                    try:
                        job()
                    except StoreError as error:
                        failed(error)
                if batch.wanted >= _SEVERAL:
                    time.sleep(_PAUSE_SECONDS)
        finally:  # however this thread ended, nobody may wait for it forever
            with self._lock:
                self._stopped = True
            self._drop(StoreError("the writer has ended; close the store and open it again"))
            self._durable.close()
            self._released()

    def _take(self) -> Batch | None:
        """The next batch, once somebody waits for it or it waited itself; None when stopped and empty."""
        lingered = False
        while True:
            with self._lock:
                batch = self._filling
                ready = lingered or batch.wanted or self._stopped or len(batch.records) >= _MANY
                if batch.records and ready:
                    return self._next_batch()
                if self._stopped:
                    return None
            lingered = not self._rang_within(_LINGER_SECONDS if batch.records else None)

    def _rang_within(self, seconds: float | None) -> bool:
        """Whether the bell rings before so many seconds are over."""
        with suppress(Empty):
            self._bell.get(timeout=seconds)
            return True
        return False

    def _drop(self, error: StoreError) -> None:
        """Drop the batch and everything queued behind it; numbers continue after the last durable record."""
        with self._lock:
            dropped = self._queued()
            if dropped:
                self._writing, self._filling = None, self._new_batch()
                self.epoch += 1
                with suppress(StoreError):  # a commit can fail after it was done: ask the file
                    self._last = self._durable.last()
        for batch in dropped:
            batch.settle(error)
