"""A live state and the ledger behind it, kept in step: what is not in the ledger did not happen."""

import threading
from types import TracebackType

from sigma_mem.decide import Reads
from sigma_mem.errors import StoreError
from sigma_mem.session.fold import Fold
from sigma_mem.session.lines import Opening
from sigma_mem.session.snapshot import pack_fold, unpack_fold
from sigma_mem.store.base import Record, Snapshot, Store, Ticket

_STALE = -1  # an epoch that no store has


class Journal:
    """Appends lines to a namespace's ledger and applies them to the state.

    ``with journal as fold`` takes the lock and gives the state after every line that was appended and not
    dropped. It stays the same object to the end of the block, also if the store has to drop lines
    meanwhile: what is then appended on top of it is refused.

    Parameters
    ----------
    store, namespace
        Where the ledger is.
    opening : Opening
        Its first line.
    reads : Reads
        The reads that the adaptive one chooses among.
    snapshot_every : int
        Lines after which derived state is saved, so that a start need not replay them all.
    """

    def __init__(
        self, store: Store, namespace: str, opening: Opening, reads: Reads, snapshot_every: int
    ) -> None:
        self.store = store
        self.namespace = namespace
        self._opening = opening
        self._reads = reads
        self._snapshot_every = snapshot_every
        self._lock = threading.Lock()
        self._epoch = store.epoch
        self._saved = 0  # the last line in a snapshot
        self._fold = self._load()

    def __enter__(self) -> Fold:
        self._lock.acquire()
        try:
            if self.store.epoch != self._epoch:
                self._fold = self._load()  # the store had to drop lines that were applied
            elif self.store.readonly:
                self._replay(self._fold)  # what another process appended meanwhile
        except BaseException:
            self._lock.release()
            raise
        return self._fold

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()

    def append(self, *records: Record) -> Ticket:
        """Append lines as one unit and apply them; they are durable once the ticket says so.

        Holds the lock already.
        """
        try:
            seq, ticket = self.store.append(self.namespace, records, self._epoch)
            for place, record in enumerate(records, seq - len(records) + 1):
                self._fold.apply(record, place)
        except BaseException:  # an interrupt, too, may come between the two: start again from the ledger
            self._epoch = _STALE
            raise
        if seq - self._saved >= self._snapshot_every:
            self.snapshot_if_possible()
        return ticket

    def snapshot_if_possible(self) -> None:
        """Save derived state; on a full disk go on without it: the ledger has everything."""
        try:
            self.snapshot()
        except StoreError:
            self._saved = self._fold.seq  # try again after as many lines

    def snapshot(self) -> None:
        """Save derived state."""
        fold = self._fold
        if fold.seq > self._saved:
            self.store.save_snapshot(self.namespace, Snapshot(fold.seq, pack_fold(fold)), self._epoch)
            self._saved = fold.seq

    def replayed(self) -> Fold:
        """The state that the ledger alone gives, from its first line."""
        return self._replay(Fold(self.store, self.namespace, self._opening, self._reads))

    def _load(self) -> Fold:
        self._epoch = self.store.epoch
        fold = Fold(self.store, self.namespace, self._opening, self._reads)
        saved = self.store.load_snapshot(self.namespace)
        if saved is not None:
            unpack_fold(fold, saved.body)
        self._saved = fold.seq
        return self._replay(fold)

    def _replay(self, fold: Fold) -> Fold:
        for record in self.store.records(self.namespace, after=fold.seq):
            fold.apply(record, record.seq)
        return fold
