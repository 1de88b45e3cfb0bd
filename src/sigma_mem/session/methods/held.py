"""What a memory is, and how it ends: the base of all methods."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Self

import numpy as np

from sigma_mem.decide import Reads
from sigma_mem.encode import Encoder
from sigma_mem.events import Decision
from sigma_mem.ledger.journal import Journal
from sigma_mem.ledger.lines import OpenLine
from sigma_mem.ledger.logs import LOG
from sigma_mem.memory import Settings, SigmaState
from sigma_mem.session.advice import FIRST_CHECK, Advice, advice_for
from sigma_mem.session.deciding import Decided, Decider
from sigma_mem.store.base import Store


class HeldMemory:
    """An open memory; `SigmaMem` opens it."""

    store: Store
    _namespace: str
    _opening: OpenLine
    _encoder: Encoder | None
    _keep_text: bool
    _journal: Journal
    _decider: Decider
    _registry: Reads
    _rng: np.random.Generator
    _clock: Callable[[], float]
    _durable: bool
    _owns_store: bool
    _closed: bool
    _warned: set[str]

    @property
    def peers(self) -> tuple[str, ...]:
        """The pool, in order."""
        with self._journal as fold:
            return fold.state.peers

    @property
    def rank(self) -> int:
        """Dimension of φ."""
        return self._opening.rank

    @property
    def settings(self) -> Settings:
        """As recorded with the memory."""
        return self._opening.settings

    @property
    def encoder(self) -> Mapping[str, str]:
        """Name and version of the encoder that the memory was made with."""
        return dict(self._opening.encoder)

    @property
    def keep_text(self) -> bool:
        """Whether questions and answers are kept in the ledger."""
        return self._keep_text

    @property
    def state(self) -> SigmaState:
        """The live state, to read from; it is written through `feedback` only."""
        with self._journal as fold:
            return fold.state

    @property
    def reads(self) -> SigmaState:
        """The second memory, whose peers are the reads."""
        with self._journal as fold:
            return fold.reads

    @property
    def events(self) -> int:
        """How many events were decided."""
        with self._journal as fold:
            return fold.state.clock

    def advice(self) -> list[Advice]:
        """What there is to say about how the memory is used, with remedies; each is also logged once.

        That happens after 256 events, then after twice as many, and so on.
        """
        return advice_for(self._journal, self._opening.encoder["name"])

    def snapshot(self) -> None:
        """Save derived state, so that the next start need not replay the whole ledger."""
        with self._journal:
            self._journal.snapshot()

    def close(self) -> None:
        """Write what is still queued and release the store; idempotent."""
        if self._closed or not self._owns_store:
            return
        self._closed = True
        try:
            if not self.store.readonly:
                with self._journal:
                    self._journal.snapshot_if_possible()
        finally:
            self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _made(self, decided: Decided) -> Decision:
        """The decision, on disk where all decisions are to be; gives advice now and then."""
        if self._durable:
            decided.ticket.wait()
        events, decision = decided.events, decided.decision
        if events >= FIRST_CHECK and events & (events - 1) == 0 and decision.event == decision.id:
            self._advise()
        return decision

    def _advise(self) -> None:
        """Look for advice, which reads hundreds of lines, and log what is new."""
        self._warn(self.advice())

    def _warn(self, found: Iterable[Advice | None]) -> None:
        """Log what was not said before."""
        for advice in found:
            if advice is not None and advice.about not in self._warned:
                self._warned.add(advice.about)
                LOG.warning("memory %r: %s", self._namespace, advice)
