"""An open memory: how it is opened, what it is made of, and how it ends."""

from __future__ import annotations

import os
import time as _time
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Literal, Self

import numpy as np

from sigma_mem.decide import READS, Reads
from sigma_mem.encode import Encoder
from sigma_mem.encode.custom import Embed
from sigma_mem.errors import InputError
from sigma_mem.events import Decision
from sigma_mem.ledger.journal import shared_journal
from sigma_mem.ledger.logs import LOG
from sigma_mem.memory import Settings, SigmaState
from sigma_mem.session.advice import FIRST_CHECK, Advice, advice_for, rank_advice
from sigma_mem.session.checks import (
    checked_count,
    checked_kind,
    checked_name,
    checked_path,
    file_errors,
)
from sigma_mem.session.judgement import JudgingCenter
from sigma_mem.session.opening import open_memory
from sigma_mem.session.peers import checked_pool, other_pool_error, sync_pool
from sigma_mem.session.task import Decided, Decider
from sigma_mem.store.base import Store
from sigma_mem.store.open import file_of, open_store


class Handle:
    """A handle on the memory in a namespace; `SigmaMem` adds what users do with it, and has the parameters.

    Attributes
    ----------
    store : Store
        Where the ledger is kept.
    opening : OpenLine
        The ledger's first line: what the memory was made of.
    journal : Journal
        The ledger, and the state that follows from it.
    decider : Decider
        Makes the decisions.
    question_encoder : Encoder, optional
        Turns questions into φ; None if every φ is handed in.
    clock : callable
        Seconds since 1970.
    owns_store : bool
        Whether `close` closes the store.
    """

    def __init__(
        self,
        peers: Sequence[str] | None = None,
        path: str | os.PathLike[str] | None = None,
        *,
        sync: bool = False,
        rank: int | None = None,
        encoder: str | Embed | Encoder | None = None,
        settings: Settings | None = None,
        namespace: str = "default",
        center: JudgingCenter | None = None,
        readonly: bool = False,
        store: Store | None = None,
        durable: Literal["feedback", "all"] = "feedback",
        keep_text: bool | None = None,
        snapshot_every: int = 4096,
        reads: Reads = READS,
        seed: int | None = None,
        clock: Callable[[], float] = _time.time,
    ) -> None:
        if not isinstance(durable, str) or durable not in ("feedback", "all"):
            raise InputError(f"durable is {durable!r:.80}; expected 'feedback' or 'all'")
        if isinstance(snapshot_every, bool) or not isinstance(snapshot_every, int) or snapshot_every < 1:
            raise InputError(
                f"snapshot_every is {snapshot_every!r:.80}; expected a number of lines, at least 1"
            )
        checked_path("path", path)
        checked_name("namespace", namespace)
        checked_count("rank", rank)
        checked_count("seed", seed)
        checked_kind("settings", settings, Settings, "Settings(...)")
        if store is not None and not hasattr(store, "load_snapshot"):
            raise InputError(f"store is {store!r:.80}; expected a store")
        if not callable(clock):
            raise InputError(f"clock is {clock!r:.80}; expected a function")
        self.clock, self._reads, self._durable = clock, reads, durable == "all"
        self._rng = np.random.default_rng(seed)
        self._warned: set[str] = set()
        self.owns_store, self._closed = store is None, False
        self._namespace = namespace
        with file_errors("open the memory"):
            file = None if path is None or readonly else file_of(path)
            made = file if file is not None and not file.exists() else None
            self.store = open_store(path, readonly, create=peers is not None) if store is None else store
        try:
            self.opening, self.question_encoder = open_memory(
                self.store, namespace, peers, rank, encoder, settings, keep_text, clock()
            )
            self.journal = shared_journal(self.store, namespace, self.opening, reads, snapshot_every)
            self.decider = Decider(
                self.journal,
                self.opening,
                self.question_encoder,
                reads,
                center,
                self._rng,
                clock,
                self.keep_text,
            )
            with self.journal:
                pass  # load it now: a damaged memory does not open
            if peers is not None and not checked_pool(peers, self.peers):
                if not sync:
                    raise other_pool_error(peers, self.peers, namespace)
                sync_pool(self.journal, peers, clock())
            self._warn([rank_advice(self.rank)])
        except BaseException:
            if self.owns_store:
                unused = made is not None and not self.store.namespaces()
                self.store.close()
                if unused and made is not None:
                    made.unlink()  # no memory came of it
            raise

    # --- what it is ----------------------------------------------------------------------

    @property
    def peers(self) -> tuple[str, ...]:
        """The pool, in order."""
        with self.journal as fold:
            return fold.state.peers

    @property
    def events(self) -> int:
        """How many events were decided."""
        with self.journal as fold:
            return fold.state.clock

    @property
    def rank(self) -> int:
        """Dimension of φ."""
        return self.opening.rank

    @property
    def settings(self) -> Settings:
        """As recorded with the memory."""
        return self.opening.settings

    @property
    def encoder(self) -> Mapping[str, str]:
        """Name and version of the encoder that the memory was made with."""
        return dict(self.opening.encoder)

    @property
    def keep_text(self) -> bool:
        """Whether questions and answers are kept in the ledger."""
        return self.opening.keep_text

    @property
    def state(self) -> SigmaState:
        """The live state, to read from; it is written through `feedback` only."""
        with self.journal as fold:
            return fold.state

    @property
    def reads(self) -> SigmaState:
        """The second memory, whose peers are the reads."""
        with self.journal as fold:
            return fold.reads

    # --- the end, and warnings -----------------------------------------------------------

    def close(self) -> None:
        """Write what is still queued and release the store; idempotent."""
        if self._closed or not self.owns_store:
            return
        self._closed = True
        try:
            if not self.store.readonly:
                with self.journal:
                    self.journal.snapshot_if_possible()
        finally:
            self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _made(self, decided: Decided) -> Decision:
        """The decision, on disk if all decisions are to be; gives advice now and then."""
        if self._durable:
            decided.ticket.wait()
        events, decision = decided.events, decided.decision
        if events >= FIRST_CHECK and events & (events - 1) == 0 and decision.event == decision.id:
            self._advise()
        return decision

    def _advise(self) -> None:
        """Look for advice, which reads hundreds of lines, and log what is new."""
        self._warn(advice_for(self.journal, self.opening.encoder["name"]))

    def _warn(self, found: Iterable[Advice | None]) -> None:
        """Log what was not said before."""
        for advice in found:
            if advice is not None and advice.about not in self._warned:
                self._warned.add(advice.about)
                LOG.warning("memory %r: %s", self._namespace, advice)
