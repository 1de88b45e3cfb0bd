"""A live state and the ledger behind it, kept in step: what is not in the ledger did not happen."""

from __future__ import annotations

import secrets
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from itertools import count
from time import monotonic
from typing import Any

from msgspec.structs import replace

from sigma_mem.errors import SigmaMemError, StoreCorruptError, StoreError, StoreUnavailableError
from sigma_mem.ledger.fold import Fold
from sigma_mem.ledger.lines import Body, ForgottenLine, Line, OpenLine, is_decision
from sigma_mem.ledger.logs import LOG
from sigma_mem.ledger.records import Ledger, encoded, record_of
from sigma_mem.ledger.snapshot import pack_fold, unpack_fold
from sigma_mem.store.base import Erased, Failed, Snapshot, Store, Ticket, tell_after_fork

_STALE = -1  # an epoch that no store has
_FRESH_SECONDS = 0.25  # that a read may lag behind what other processes appended


class Journal:
    """Appends lines to a namespace's ledger and applies them to the state.

    ``with journal as fold`` takes the lock and gives the state after every line that was appended and not
    dropped. It stays the same object to the end of the block, also if the store has to drop lines
    meanwhile: what is then appended on top of it is refused. All handles on a namespace of a store share one
    journal (`shared_journal`). Callers that are going to append use ``with journal.writing() as fold``. If
    other processes append to the same ledger, it waits for this one's turn, and the state then has what they
    appended. Without it the state may lag a little behind, and what is appended on top of it is refused then.

    A signal handler may raise between any two steps. So the state counts as stale while it changes, and what
    comes after an interrupt starts from the ledger again; and the lock is released by its own method, since
    an interrupt can come before the first step of a method written here.

    Parameters
    ----------
    store, namespace
        Where the ledger is.
    opening : OpenLine
        Its first line.
    snapshot_every : int
        Lines of this namespace after which derived state is saved, so that a start need not replay them all.

    Attributes
    ----------
    suspended : bool
        Whether the store is away: the state stays as it is, the store is not queried, and nothing is
        appended.
    """

    def __init__(self, store: Store, namespace: str, opening: OpenLine, snapshot_every: int) -> None:
        self.store = store
        self.namespace = namespace
        self.snapshot_every = snapshot_every
        self._opening = opening
        self._lock = threading.RLock()
        self._epoch = _STALE  # the state is loaded when it is first needed
        self.suspended = False
        self._unsaved = 0  # lines that no snapshot holds
        self.ledger = Ledger(store, namespace)
        self._fold = Fold(self.ledger, opening)
        self._boot, self._ids = "", count(1)
        self._followed = 0.0  # when the state was last known to hold everything
        tell_after_fork(self)

    def after_fork(self) -> None:
        """In a forked child: another thread may have been inside, so that the state is loaded again."""
        self._lock, self._epoch = threading.RLock(), _STALE

    def __enter__(self) -> Fold:
        try:
            self._lock.acquire()
            if self.suspended:
                return self._fold
            if self.store.epoch(self.namespace) != self._epoch:
                self._load()  # the first time, after an interrupt, and if the store had to drop lines
            elif self.store.readonly or (
                self.store.shared and monotonic() - self._followed > _FRESH_SECONDS  # of what others appended
            ):
                self._follow()
            return self._fold
        except BaseException:
            if self._lock._is_owned():  # type: ignore[attr-defined]
                self._lock.release()
            raise

    @property
    def __exit__(self) -> Callable[..., Any]:
        return self._lock.__exit__

    def writing(self) -> AbstractContextManager[Fold]:
        """The state to append to, as ``with journal``, in this process's turn if there are others."""
        return self._in_turn() if self.store.shared and not self.suspended else self

    @contextmanager
    def _in_turn(self) -> Iterator[Fold]:
        """The turn is taken before the lock, so that reads need not wait for it.

        A thread that has the lock already takes its turn at once, since others may wait for the lock.
        """
        inside = self._lock._is_owned()  # type: ignore[attr-defined]
        with self.store.turn(self.namespace, inside), self:
            yield self._current()

    def _current(self) -> Fold:
        """The state after every line of the ledger. Holds the lock, in this process's turn."""
        if not self.store.is_current(self.namespace, self._fold.seq):
            self._follow()
        elif self._epoch != self.store.epoch(self.namespace):
            self._load()
        return self._fold

    def append(self, *lines: Line[Body]) -> Ticket:
        """Append lines as one unit and apply them; they are durable once the ticket is done.

        Holds the lock already.
        """
        if self.suspended:
            raise StoreUnavailableError("the store is away; nothing was recorded")
        records = list(map(record_of, lines))
        epoch, self._epoch = self._epoch, _STALE
        try:
            seq, ticket = self.store.append(self.namespace, records, epoch, self._fold.seq)
        except SigmaMemError:
            self._epoch = epoch  # nothing was appended
            raise
        for place, line in enumerate(lines, seq - len(lines) + 1):
            self._fold.apply(line, place)
        self._unsaved += len(lines)
        self._epoch = epoch
        if self._unsaved >= self.snapshot_every:
            self.snapshot_if_possible(later=True)
        return ticket

    def append_late(self, lines: Iterable[Line[Body]]) -> bool:
        """Append lines of decisions that were made while the store was away, in order.

        Their claims stay as they were made; a new event is counted now. Lines that are there already are left
        alone. False, and nothing appended, if the pool has changed since.
        """
        with self.writing() as fold:
            left = [line for line in lines if self.store.find(self.namespace, line.kind, line.id) is None]
            if any(is_decision(line) and line.body.peers != fold.state.peers for line in left):
                return False
            for line in left:
                if is_decision(line) and line.id == line.event:
                    line = line._replace(body=replace(line.body, tick=fold.state.next_tick(line.body.time)))
                self.append(line)
            return True

    def erase(self, left: Mapping[int, tuple[str, ForgottenLine]], line: Line[Body]) -> None:
        """Append a line and keep only id and body of earlier ones; the state starts from the ledger again.

        Returns once it is durable. Holds the lock already.
        """
        if not self.store.is_current(self.namespace, self._fold.seq):
            raise StoreError("another process appended meanwhile; nothing was forgotten. Try again")
        self._epoch = _STALE
        small = {seq: Erased(id, encoded(body)) for seq, (id, body) in left.items()}
        self.store.erase(self.namespace, small, record_of(line))

    def new_id(self) -> str:
        """An id for a decision that no other has, in this run or another. Holds the lock already."""
        while not self._boot:
            boot = secrets.token_hex(4)
            if self.store.find(self.namespace, "decision", f"{boot}-1") is None:
                self._boot = boot
        return f"{self._boot}-{next(self._ids)}"

    def snapshot_if_possible(self, later: bool = False) -> None:
        """Save derived state; on a full disk go on without it: the ledger has everything.

        With ``later`` it need not be saved yet when this returns: an append does not wait for the disk.
        """
        try:
            self.snapshot(self._unsaved_because if later else None)
        except StoreError as error:
            self._unsaved = 0  # try again after as many lines
            self._unsaved_because(error)

    def _unsaved_because(self, error: StoreError) -> None:
        LOG.warning(
            "memory %r: no snapshot was saved (%s); the next start replays more", self.namespace, error
        )

    def snapshot(self, failed: Failed | None = None) -> None:
        """Save derived state; see `Store.save_snapshot`."""
        fold = self._fold
        if self._unsaved:
            saved = Snapshot(fold.seq, pack_fold(fold))
            self.store.save_snapshot(self.namespace, saved, self._epoch, failed)
            self._unsaved = 0

    def replayed(self) -> Fold:
        """The state that the ledger alone gives, line by line: what live gave, to the bit."""
        fold = Fold(self.ledger, self._opening)
        for line in self.ledger.lines():
            fold.apply(line, line.seq)
        return fold

    def _load(self) -> None:
        epoch = self.store.epoch(self.namespace)
        fold = Fold(self.ledger, self._opening)
        saved = self.store.load_snapshot(self.namespace)
        self._followed = monotonic()
        try:
            if saved is not None:
                unpack_fold(fold, saved.body)
            self._unsaved = fold.replay(self.ledger.lines(after=fold.seq))
        except StoreCorruptError:
            if saved is None:
                raise
            fold = Fold(self.ledger, self._opening)  # the snapshot may be of lines that are gone
            self._unsaved = fold.replay(self.ledger.lines(after=fold.seq))
        self._fold, self._epoch = fold, epoch

    def _follow(self) -> None:
        """Apply what another process appended meanwhile."""
        now = monotonic()
        current = self.store.is_current(self.namespace, self._fold.seq)
        epoch, self._epoch = self._epoch, _STALE
        same = epoch == self.store.epoch(self.namespace)  # else lines that were applied are gone
        if same and (current or (self._continues() and epoch == self.store.epoch(self.namespace))):
            self._epoch, self._followed = epoch, now
        else:
            self._load()

    def _continues(self) -> bool:
        """Apply the lines that follow; whether they follow what was applied."""
        try:
            for line in self.ledger.lines(after=self._fold.seq):
                if line.kind == "forget":  # what was applied is no longer what the ledger holds
                    return False
                self._fold.apply(line, line.seq)
                self._unsaved += 1
        except StoreCorruptError:  # other lines than those that were applied lead there, or it is damaged
            return False
        return True


class _Journals:
    """The journals of this process."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.of_store: weakref.WeakKeyDictionary[Store, weakref.WeakValueDictionary[str, Journal]]
        self.of_store = weakref.WeakKeyDictionary()
        tell_after_fork(self)

    def after_fork(self) -> None:
        """In a forked child: another thread may have held the lock."""
        self.lock = threading.RLock()


_JOURNALS = _Journals()


def shared_journal(store: Store, namespace: str, opening: OpenLine, snapshot_every: int) -> Journal:
    """The one journal of a namespace of a store in this process, for as long as somebody holds it."""
    with _JOURNALS.lock:
        of_store = _JOURNALS.of_store.setdefault(store, weakref.WeakValueDictionary())
        journal = of_store.get(namespace)
        if journal is None:
            journal = of_store[namespace] = Journal(store, namespace, opening, snapshot_every)
    journal.snapshot_every = min(journal.snapshot_every, snapshot_every)
    return journal
