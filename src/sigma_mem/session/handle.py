"""An open memory: made or opened and checked, what it is made of, and how it ends."""

from __future__ import annotations

import os
import time as _time
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Literal, Self

import numpy as np

from sigma_mem.decide import READS, Reads
from sigma_mem.encode import ENCODERS, CustomEncoder, Encoder, open_encoder
from sigma_mem.encode.custom import Embed
from sigma_mem.errors import ConflictError, EncoderMismatchError, InputError
from sigma_mem.events import Decision
from sigma_mem.ledger.journal import shared_journal
from sigma_mem.ledger.lines import OpenLine, open_line
from sigma_mem.ledger.logs import LOG
from sigma_mem.ledger.records import Ledger, record_of
from sigma_mem.memory import Settings, SigmaState
from sigma_mem.session.advice import FIRST_CHECK, Advice, advice_for, rank_advice
from sigma_mem.session.checks import (
    checked_count,
    checked_flag,
    checked_kind,
    checked_name,
    checked_names,
    checked_path,
    file_errors,
)
from sigma_mem.session.judgement import Judge, JudgingCenter
from sigma_mem.session.peers import checked_pool, other_pool_error, sync_pool
from sigma_mem.session.task import Decided, Decider
from sigma_mem.store.base import Store
from sigma_mem.store.open import file_of, open_store

_LARGEST_RANK = 16384
_NO_ENCODER = {"name": "phi", "version": "1"}  # every φ is handed in


def open_memory(
    store: Store,
    namespace: str,
    peers: Sequence[str] | None,
    rank: int | None,
    encoder: str | Embed | Encoder | None,
    settings: Settings | None,
    keep_text: bool | None,
    time: float,
) -> tuple[OpenLine, Encoder | None]:
    """Make the namespace's memory, or open it and check the caller's arguments against it.

    Returns what the memory is made of and its encoder; None if φ is handed in.
    """
    checked_flag("keep_text", keep_text)
    first = next(Ledger(store, namespace).lines(), None)
    if first is not None:
        opening: OpenLine = first.body
        return opening, _checked(opening, namespace, rank, encoder, settings, keep_text)
    if peers is None:
        raise InputError(f"namespace {namespace!r} holds no memory yet; expected peers=[...] to make one")
    found = choose_encoder(encoder, rank)
    size = found.rank if found is not None else rank
    if size is None or (rank is not None and rank != size):
        raise InputError(
            f"rank is {rank} and the encoder {_name(found)['name']!r} has rank {size}; expected them equal"
        )
    if size > _LARGEST_RANK:
        raise InputError(
            f"rank is {size}; expected at most {_LARGEST_RANK}: every peer has matrices of rank²"
        )
    state = SigmaState(checked_names("peers", peers), size, settings)  # checks peers
    opening = OpenLine(state.peers, size, state.settings, _name(found), keep_text is not False, time)
    try:
        store.append(namespace, [record_of(open_line(opening, time))])[1].wait()
    except ConflictError:  # another thread was first
        return open_memory(store, namespace, peers, rank, encoder, settings, keep_text, time)
    return opening, found


def _checked(
    opening: OpenLine,
    namespace: str,
    rank: int | None,
    encoder: str | Embed | Encoder | None,
    settings: Settings | None,
    keep_text: bool | None,
) -> Encoder | None:
    if rank is not None and rank != opening.rank:
        raise InputError(f"rank is {rank}; the memory in {namespace!r} has rank {opening.rank}")
    if settings is not None and settings != opening.settings:
        raise InputError(
            f"settings are {settings}; the memory in {namespace!r} was made with {opening.settings}: "
            "leave them out, or take another namespace"
        )
    if keep_text is not None and opening.keep_text is not keep_text:
        raise InputError(
            f"keep_text is {keep_text}; the memory in {namespace!r} was made with {opening.keep_text}: "
            f"leave it out, or make another memory with refold(keep_text={keep_text})"
        )
    written_with = opening.encoder
    if encoder is None and written_with["name"] not in ENCODERS:
        return None  # it was an encoder object: φ may be handed in
    found = choose_encoder(written_with["name"] if encoder is None else encoder, opening.rank)
    if _name(found) != written_with:
        raise EncoderMismatchError(
            f"encoder is {_name(found)['name']} {_name(found)['version']}; the memory in {namespace!r} was "
            f"written with {written_with['name']} {written_with['version']}: φ of two encoders do not mix; "
            "open it with that one, or start another namespace"
        )
    return found


def choose_encoder(encoder: str | Embed | Encoder | None, rank: int | None) -> Encoder | None:
    """The encoder that a caller means; None if every φ is handed in."""
    if encoder is None:
        return None if rank is not None else open_encoder("static")
    return open_encoder(encoder) if isinstance(encoder, str) else CustomEncoder(encoder, rank=rank)


def _name(encoder: Encoder | None) -> dict[str, str]:
    return dict(_NO_ENCODER) if encoder is None else {"name": encoder.name, "version": encoder.version}


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
        judges: Sequence[Judge] = (),
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
        self.judges = tuple(judges)
        with file_errors("open the memory"):
            file = None if path is None or readonly else file_of(path)
            made = file if file is not None and not file.exists() else None
            self.store = open_store(path, readonly, create=peers is not None) if store is None else store
        try:
            self.opening, self.question_encoder = open_memory(
                self.store, namespace, peers, rank, encoder, settings, keep_text, clock()
            )
            self.journal = shared_journal(self.store, namespace, self.opening, snapshot_every)
            self.decider = Decider(
                self.journal,
                self.opening,
                self.question_encoder,
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
    def reads(self) -> Reads:
        """The reads that `route`, `vote` and `decide` know."""
        return self._reads

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
        """The decision, on disk if all decisions are to be; gives advice from time to time."""
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
        """Log what was not logged before."""
        for advice in found:
            if advice is not None and advice.about not in self._warned:
                self._warned.add(advice.about)
                LOG.warning("memory %r: %s", self._namespace, advice)
