"""A live state and the ledger it is folded from, kept in step: what is not in the ledger did not happen."""

from __future__ import annotations

import threading
from dataclasses import replace
from types import TracebackType

from sigma_mem.errors import StoreError
from sigma_mem.session.fold import Fold
from sigma_mem.session.opening import Opening
from sigma_mem.store.base import Record, Snapshot, Store, Ticket

__all__ = ["Journal"]


class Journal:
    """Appends lines to a namespace's ledger and holds the state they fold into.

    ``with journal as fold`` takes the lock and gives the state after every line that was
    appended and not dropped. It stays the same object to the end of the outermost block, also
    if the store has to drop lines meanwhile: what is then appended on top of it is refused.

    Parameters
    ----------
    store, namespace
        Where the ledger is.
    opening : Opening
        Its first line.
    snapshot_every : int
        Lines after which derived state is saved, so that a start need not replay them all.
    """

    def __init__(self, store: Store, namespace: str, opening: Opening, snapshot_every: int) -> None:
        self.store = store
        self.namespace = namespace
        self._opening = opening
        self._snapshot_every = snapshot_every
        self._lock = threading.RLock()
        self._depth = 0
        self._epoch = store.epoch
        self._saved = 0
        self._fold = self._load()

    def __enter__(self) -> Fold:
        self._lock.acquire()
        try:
            if self._depth == 0 and self.store.epoch != self._epoch:
                self._fold = self._load()  # the store had to drop lines that we had folded in
        except BaseException:
            self._lock.release()
            raise
        self._depth += 1
        return self._fold

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._depth -= 1
        self._lock.release()

    def append(self, record: Record) -> Ticket:
        """Append a line that the caller folds in itself; durable once the ticket says so."""
        try:
            self._fold.seq, ticket = self.store.append(self.namespace, [record], self._epoch)
        except StoreError:
            self._fold = self._load()
            raise
        return ticket

    def commit(self, record: Record) -> None:
        """Append a line, wait until it is durable, and fold it in."""
        seq, ticket = self.store.append(self.namespace, [record], self._epoch)
        ticket.wait()
        if self.store.epoch == self._epoch:
            self._fold.apply(replace(record, seq=seq))
        else:  # lines before or after it were dropped; the ledger has this one
            self._fold = self._load()

    def snapshot_when_due(self) -> None:
        """Save derived state if enough lines have come since the last time."""
        if self._fold.seq - self._saved >= self._snapshot_every:
            self.snapshot_if_possible()

    def snapshot_if_possible(self) -> None:
        """Save derived state; on a full disk go on without: the ledger has it all."""
        try:
            self.snapshot()
        except StoreError:
            self._saved = self._fold.seq  # again after as many lines

    def snapshot(self) -> None:
        """Save derived state."""
        fold = self._fold
        if fold.seq > self._saved:
            self.store.save_snapshot(self.namespace, Snapshot(fold.seq, fold.pack()), self._epoch)
            self._saved = fold.seq

    def replayed(self) -> Fold:
        """The state that the ledger alone gives, from its first line."""
        return self._replay(Fold(self.store, self.namespace, self._opening.body))

    def _load(self) -> Fold:
        self._epoch = self.store.epoch
        fold = Fold(self.store, self.namespace, self._opening.body)
        saved = self.store.load_snapshot(self.namespace)
        if saved is not None:
            fold.unpack(saved.body)
        self._saved = fold.seq
        return self._replay(fold)

    def _replay(self, fold: Fold) -> Fold:
        for record in self.store.records(self.namespace, after=fold.seq):
            fold.apply(record)
        return fold
