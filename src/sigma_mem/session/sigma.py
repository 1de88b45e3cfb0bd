"""SigmaMem: the object that users hold."""

from __future__ import annotations

import os
import time as _time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from sigma_mem.decide import READS, Reads
from sigma_mem.encode import Encoder
from sigma_mem.encode.custom import Embed
from sigma_mem.errors import InputError
from sigma_mem.events import Decision
from sigma_mem.ledger.journal import Journal, shared_journal
from sigma_mem.ledger.pool import PoolChanges
from sigma_mem.memory import Settings
from sigma_mem.session.advice import rank_advice
from sigma_mem.session.arguments import explains_arguments
from sigma_mem.session.deciding import Decider
from sigma_mem.session.decisions import Moment
from sigma_mem.session.export import export_ledger, read_ledger, restore_ledger
from sigma_mem.session.forget import forget_events
from sigma_mem.session.judging import JudgingCenter
from sigma_mem.session.learning import Learned, learn_stream
from sigma_mem.session.merge import MergedPart, append_merged, merged_opening
from sigma_mem.session.methods.costs import CostMethods
from sigma_mem.session.methods.deciding import DecidingMethods
from sigma_mem.session.methods.feedback import FeedbackMethods
from sigma_mem.session.methods.looking import LookingMethods
from sigma_mem.session.methods.peers import PeerMethods
from sigma_mem.session.new_store import build_store
from sigma_mem.session.opening import open_memory
from sigma_mem.session.peers import checked_pool, other_pool_error, sync_pool
from sigma_mem.session.refold import RecordedTask, Refolded, RefoldReport, refolded, refolded_opening
from sigma_mem.store.base import Store
from sigma_mem.store.open import backup_store, file_of, open_store
from sigma_mem.streams import Stream

_NEVER = 2**62  # lines until a snapshot


@explains_arguments
class SigmaMem(DecidingMethods, CostMethods, FeedbackMethods, PeerMethods, LookingMethods):
    """An online reliability memory: who can be trusted, and when.

    Parameters
    ----------
    peers : sequence of str, optional
        Names of the models or agents, for an existing memory in any order; they may be left out there.
    path : str or path, optional
        A file to keep the memory in; None keeps it in this process.
    sync : bool
        Whether the pool of an existing memory is matched to `peers`: who is missing is added, who is not
        named is removed.
    rank : int, optional
        For a memory without an encoder: the dimension of every φ that is handed in.
    encoder : str, callable or Encoder, optional
        What turns a question into φ: "static" (default), "minilm", "hashed", or your own; see docs/encoders.
    settings : Settings, optional
        Decay, step sizes and prior, recorded with the memory.
    namespace : str
        Several memories may live in one store.
    center : Center, optional
        A frozen model for `select`; see `sigma_mem.center`.
    readonly : bool
        Look at the memory in a file and follow it, beside the process that writes it.
    store : Store, optional
        In place of `path`.
    durable : {"feedback", "all"}
        Feedback is acknowledged once it is on disk. A decision is written behind, within
        milliseconds, unless "all".
    keep_text : bool, optional
        Whether questions and answers are kept in the ledger (explanations quote them), by default so. Without
        them the ledger keeps numbers only: φ, which answers were equal, and the text features of each. It is
        recorded with a new memory, and holds whenever that is opened.
    reads : Reads
        The reads that `vote`, `route` and `decide` know.
    seed : int, optional
        For exploring routes.
    clock : callable
        Seconds since 1970.

    Examples
    --------
    >>> mem = SigmaMem(peers=["ann", "bob"], encoder="hashed")
    >>> for _ in range(8):
    ...     d = mem.vote("What is 2 + 2?", {"ann": "4", "bob": "5"})
    ...     _ = mem.feedback(d.id, {"ann": True, "bob": False})
    >>> mem.route("What is 2 + 3?").peer
    'ann'
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
        self._clock = clock
        self._registry = reads
        if durable not in ("feedback", "all"):
            raise InputError(f"durable is {durable!r}; expected 'feedback' or 'all'")
        if snapshot_every < 1:
            raise InputError(f"snapshot_every is {snapshot_every}; expected a number of lines, at least 1")
        self._durable = durable == "all"
        self._rng = np.random.default_rng(seed)
        self._warned: set[str] = set()
        self._owns_store = store is None
        self._closed = False
        file = None if path is None or readonly else file_of(path)
        made = file if file is not None and not file.exists() else None
        self.store = open_store(path, readonly, create=peers is not None) if store is None else store
        self._namespace = namespace
        try:
            opening, self._encoder = open_memory(
                self.store, namespace, peers, rank, encoder, settings, keep_text, clock()
            )
            self._opening = opening
            self._keep_text = opening.keep_text
            self._journal = shared_journal(self.store, namespace, opening, reads, snapshot_every)
            self._decider = Decider(
                self._journal, opening, self._encoder, reads, center, self._rng, clock, self._keep_text
            )
            with self._journal:
                pass  # load it now: a damaged memory does not open
            if peers is not None and not checked_pool(peers, self.peers):
                if not sync:
                    raise other_pool_error(peers, self.peers, namespace)
                sync_pool(self._journal, peers, clock())
            self._warn([rank_advice(opening.rank)])
        except BaseException:
            if self._owns_store:
                unused = made is not None and not self.store.namespaces()
                self.store.close()
                if unused and made is not None:
                    made.unlink()  # no memory came of it
            raise

    def namespace(
        self,
        name: str,
        peers: Sequence[str] | None = None,
        *,
        rank: int | None = None,
        encoder: str | Embed | Encoder | None = None,
        settings: Settings | None = None,
        center: JudgingCenter | None = None,
        durable: Literal["feedback", "all"] = "feedback",
        keep_text: bool | None = None,
        snapshot_every: int = 4096,
        seed: int | None = None,
    ) -> SigmaMem:
        """Another memory in the same store; the parameters are those of `SigmaMem`."""
        return SigmaMem(
            peers,
            store=self.store,
            namespace=name,
            rank=rank,
            encoder=encoder,
            settings=settings,
            center=center,
            durable=durable,
            keep_text=keep_text,
            snapshot_every=snapshot_every,
            reads=self._registry,
            seed=seed,
            clock=self._clock,
        )

    # --- forget, keep, move --------------------------------------------------------------

    def forget(
        self,
        decision: str | Decision | Iterable[str | Decision] | None = None,
        *,
        before: Moment | None = None,
        text: str | None = None,
    ) -> int:
        """Forget events for good: their texts, φ and labels, and their share of all that was learned.

        The memory is then as if they had been decided with nothing known of them, and never labelled: the
        clock, the ages of other events and all ids stay. Their bytes leave the file as well. What later
        decisions claimed stays as it was recorded; `refold` computes it again. Takes as long as a replay.
        Returns how many events were forgotten.

        Parameters
        ----------
        decision : str, Decision or several of them
            Any decision on the event, its id, or the event's ref.
        before : float, datetime or str
            Forget all events decided before this moment.
        text : str
            Forget all events in whose question or answers this text occurs, in upper or lower case.
        """
        return forget_events(self._journal, decision, before, text, self._clock())

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Copy the whole store, with all its namespaces, into a new file; decisions go on meanwhile."""
        backup_store(self.store, Path(path))

    def export(self, path: str | os.PathLike[str]) -> int:
        """Write this memory as JSON lines, compressed for ``.gz``; return how many lines. Nothing is lost."""
        with self._journal as fold:
            until = fold.seq
        return export_ledger(self._journal.ledger, Path(path), until)

    @staticmethod
    def restore(
        file: str | os.PathLike[str],
        path: str | os.PathLike[str] | None = None,
        *,
        namespace: str = "default",
        encoder: str | Encoder | None = None,
    ) -> SigmaMem:
        """Make a memory from a file that `export` wrote: the same lines, the same state.

        Parameters
        ----------
        file
            What `export` wrote; one that was cut or changed is refused.
        path, namespace, encoder
            As for `SigmaMem`; an existing file gets one more namespace.
        """
        records = read_ledger(Path(file), encoder)
        store = open_store(path)
        try:
            restore_ledger(records, store, namespace)
            return SigmaMem._owning(store, namespace, encoder)
        except BaseException:
            store.close()
            raise

    def learn(
        self,
        stream: Stream,
        *,
        source: str = "default",
        progress: Callable[[int, int], None] | None = None,
    ) -> Learned:
        """Learn from a recorded stream: decide every event, then take its labels.

        Every event gets the ref ``stream name:event id``, so that learning again, or after an interruption,
        takes only what is not there yet. Peers that are new join the pool.

        Parameters
        ----------
        stream : Stream
            See `sigma_mem.streams.load_stream`.
        source : str
            Who labelled it.
        progress : callable, optional
            Told (done, total) now and then.
        """
        return learn_stream(self, stream, source, progress)

    def refold(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        settings: Settings | None = None,
        encoder: str | Embed | Encoder | None = None,
        keep_text: bool | None = None,
        namespace: str = "default",
    ) -> Refolded[SigmaMem]:
        """Make a new memory from this ledger: every decision is made again, and every label taken again.

        Tells how the decisions would have differed. This memory stays as it is.

        Parameters
        ----------
        path : str or path, optional
            A new file for the new memory; None keeps it in this process.
        settings : Settings, optional
            Of the new memory; those of this one by default.
        encoder : str or Encoder, optional
            To encode the questions again, which must have been kept; by default every φ stays.
        keep_text : bool, optional
            Whether the new memory keeps texts; as this one by default.
        namespace : str
            Of the new memory.
        """
        opening, chosen = refolded_opening(self._opening, self._encoder, settings, encoder, keep_text)
        with self._journal as fold:
            until = fold.seq
        task = RecordedTask()

        def fill(store: Store) -> RefoldReport:
            new = SigmaMem(
                store=store, namespace=namespace, encoder=chosen, reads=self._registry, clock=task.clock
            )
            new._decider.center = self._decider.center
            lines = self._journal.ledger.lines(until=until)
            return refolded(new, task, lines, encoder is not None)

        store, report = build_store(path, namespace, opening, self._clock(), fill)
        return Refolded(SigmaMem._owning(store, namespace, chosen), *report)

    def merge(
        self,
        other: SigmaMem,
        path: str | os.PathLike[str] | None = None,
        *,
        namespace: str = "default",
    ) -> SigmaMem:
        """Make a new memory from this one and another: as if one had seen the events of both, in time.

        Both stay as they are. They must have the same rank, settings and encoder. Events that both have,
        being copies of one memory, are taken once.

        Parameters
        ----------
        other : SigmaMem
        path, namespace
            Of the new memory, as for `refold`.
        """
        parts = [mem._part() for mem in (self, other)]
        opening = merged_opening(*parts)

        def fill(store: Store) -> None:
            append_merged(Journal(store, namespace, opening, self._registry, _NEVER), *parts)

        store, _ = build_store(path, namespace, opening, self._clock(), fill)
        return SigmaMem._owning(store, namespace, self._encoder)

    def _part(self) -> MergedPart:
        with self._journal as fold:
            return MergedPart(
                self._journal.ledger,
                self._opening,
                fold.seq,
                fold.state.peers,
                frozenset(fold.departed),
                frozenset(fold.revoked),
                PoolChanges(fold.pool),
            )

    @staticmethod
    def _owning(store: Store, namespace: str, encoder: str | Encoder | None) -> SigmaMem:
        """A memory that closes its store."""
        mem = SigmaMem(store=store, namespace=namespace, encoder=encoder)
        mem._owns_store = True
        return mem
