"""State as a fold over the ledger: the same code live and on replay, so that they agree bit for bit."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sigma_mem.answers.features import FEATURES_VERSION as VERSION
from sigma_mem.decide.adaptive import duels, over_reads
from sigma_mem.decide.reads import READS
from sigma_mem.decide.vote import group
from sigma_mem.events import FloatArray
from sigma_mem.memory import Settings, SigmaState
from sigma_mem.session.records import signs_from
from sigma_mem.store.base import Record, Store
from sigma_mem.store.codec import pack_arrays, phi_from_bytes, unpack_arrays

__all__ = ["Entry", "Fold"]

_NONE: Mapping[str, Any] = {}
_OPEN_EVENTS = 4096  # kept at hand; older ones are read back from the ledger when feedback comes


class Entry:
    """An event that feedback may still speak of: where it stands, and what was said of it."""

    __slots__ = ("canons", "expected", "lines", "phi", "reads", "said", "signs", "tick")

    def __init__(self, phi: FloatArray, tick: float) -> None:
        self.phi = phi
        self.tick = tick
        self.canons: Mapping[str, str | None] = _NONE
        self.reads: Mapping[str, str] = _NONE
        self.signs: Mapping[str, Sequence[float]] = _NONE
        self.expected: Mapping[str, float] = _NONE  # p̂ when the signs were seen
        self.said: dict[str, Mapping[str, float]] = {}  # source → peer → c
        self.lines = 0  # of feedback

    def answered(
        self,
        canons: Mapping[str, str | None],
        reads: Mapping[str, str],
        signs: Mapping[str, Sequence[float]],
        probs: Mapping[str, float],
    ) -> None:
        """Note what a decision had, if nothing is labelled yet: labels are about the answers there were then.

        So what is taken back when a label is corrected or revoked is what was written.
        """
        if self.lines or not canons:
            return
        self.canons, self.reads = canons, reads or self.reads
        self.signs, self.expected = dict(signs), {peer: probs[peer] for peer in signs}

    def surprise(self, labels: Mapping[str, float]) -> FloatArray:
        """c − (2p̂ − 1) of every answer with signs; NaN where it has no label."""
        return np.array([labels.get(peer, math.nan) - 2.0 * self.expected[peer] + 1.0 for peer in self.signs])

    def labels(self) -> Mapping[str, float]:
        """The event's labels: where several sources spoke of a peer, their mean, so that |c| ≤ 1."""
        if len(self.said) == 1:
            return next(iter(self.said.values()))
        by_peer: dict[str, list[float]] = {}
        for labels in self.said.values():
            for peer, c in labels.items():
                by_peer.setdefault(peer, []).append(c)
        return {peer: sum(every) / len(every) for peer, every in by_peer.items()}

    def say(self, labels: Mapping[str, float], source: str) -> None:
        """Note what a source said, in place of what it said before."""
        before = self.said.get(source)
        self.said[source] = labels if before is None else {**before, **labels}

    def unsay(self, source: str) -> None:
        """Forget what a source said."""
        self.said.pop(source, None)


class Fold:
    """The state after some part of a ledger, and how the next line changes it.

    Parameters
    ----------
    store, namespace
        Where lines of older events are read back from.
    opening : mapping
        Body of the ledger's first line.
    """

    def __init__(self, store: Store, namespace: str, opening: Mapping[str, Any]) -> None:
        self._store = store
        self._namespace = namespace
        settings = Settings(**opening["settings"])
        self.state = SigmaState(opening["peers"], opening["rank"], settings)
        self._reads = SigmaState(READS, opening["rank"], over_reads(settings))
        self.revoked: set[str] = set()
        self.departed: set[str] = set()
        self.seq = 0
        self._entries: OrderedDict[str, Entry] = OrderedDict()

    @property
    def reads(self) -> SigmaState:
        """The second memory, whose peers are the reads, at the same time as the first (DESIGN §8)."""
        self._reads.follow(self.state)
        return self._reads

    # --- lines ---------------------------------------------------------------------------

    def apply(self, record: Record) -> None:
        """Take one line into the state."""
        apply: Callable[[Record], None] | None = {
            "decision": self._decision,
            "feedback": self._feedback,
            "revoke": self._revoke,
            "peer": self._peer,
        }.get(record.kind)
        if apply is not None:  # "open" was taken by __init__
            apply(record)
        self.seq = record.seq

    def _decision(self, record: Record) -> None:
        body = record.body
        if record.id == record.event:
            self.begin(record.event, phi_from_bytes(record.phi), body["time"])
        self.answered(
            record.event, body["canons"], body["reads"], signs_from(record), body["probs"], record.seq
        )

    def begin(self, event: str, phi: FloatArray, time: float) -> float:
        """Count a new event; return its tick."""
        tick = self.state.decided(time)
        self._entries[event] = Entry(phi, tick)
        if len(self._entries) > _OPEN_EVENTS:
            self._entries.popitem(last=False)
        return tick

    def answered(
        self,
        event: str,
        canons: Mapping[str, str | None],
        reads: Mapping[str, str],
        signs: Mapping[str, Sequence[float]],
        probs: Mapping[str, float],
        seq: int | None = None,
    ) -> None:
        """Note the answers, their signs and the choices of the single reads, where a decision had them.

        On replay `seq` is the decision's line: the event is then known as it stood before it.
        """
        if canons:
            entry = self.entry(event, before=seq)
            if entry is not None:
                entry.answered(canons, reads, signs, probs)

    def tick_of(self, entry: Entry) -> float:
        """Where the event's labels are written: with decay by labelled event, at its first label."""
        if entry.lines:
            return entry.tick
        return self.state.labelled(entry.tick)

    def _feedback(self, record: Record) -> None:
        entry = self.entry(record.event, before=record.seq)
        if entry is None:
            return
        if not entry.lines:
            self.tick_of(entry)
        self.learn(entry, record.body["labels"], record.body["source"], record.body["tick"])

    def learn(self, entry: Entry, labels: Mapping[str, float], source: str, tick: float) -> None:
        """Write what a source said of an event."""
        before = entry.labels() if entry.lines else None
        entry.say(labels, source)
        entry.tick = tick
        entry.lines += 1
        self._write(entry, before)

    def _revoke(self, record: Record) -> None:
        source = record.body["source"]
        self.revoked.add(source)
        events = dict.fromkeys(
            line.event
            for line in self._store.records(self._namespace, until=record.seq)
            if line.kind == "feedback" and line.body["source"] == source
        )
        for event in events:
            entry = self.entry(event, before=record.seq, revoked=self.revoked - {source})
            if entry is not None:
                before = entry.labels()
                entry.unsay(source)
                self._write(entry, before)

    def _peer(self, record: Record) -> None:
        peer = record.body["peer"]
        if record.body["joins"]:
            self.state.add_peer(peer)
        else:
            self.state.remove_peer(peer)
            self.departed.add(peer)

    def known_peers(self) -> Collection[str]:
        """Peers that feedback may speak of: those in the pool, and those that were."""
        return {*self.state.peers, *self.departed} if self.departed else self.state.peers

    # --- events --------------------------------------------------------------------------

    def entry(self, event: str, before: int | None = None, revoked: set[str] | None = None) -> Entry | None:
        """An event as it stood before a line of the ledger (as it stands, if None); None if unknown."""
        entry = self._entries.get(event)
        if entry is None:
            lines = self._store.of_event(self._namespace, event)
            entry = _entry_from(
                [line for line in lines if before is None or line.seq < before],
                self.revoked if revoked is None else revoked,
            )
            if entry is not None:
                self._entries[event] = entry
                if len(self._entries) > _OPEN_EVENTS:
                    self._entries.popitem(last=False)
        return entry

    def _write(self, entry: Entry, before: Mapping[str, float] | None) -> None:
        after = entry.labels()
        peers = self.state.peers
        self.state.write(
            entry.phi,
            _aligned(peers, after),
            entry.tick,
            replaces=None if before is None else _aligned(peers, before),
            groups=_groups(peers, entry.canons),
            away=self._away(after),
            replaces_away=self._away(before or {}),
        )
        if entry.signs:
            self.state.signs.write(
                np.array(list(entry.signs.values())),
                entry.surprise(after),
                entry.tick,
                replaces=None if before is None else entry.surprise(before),
            )
        if entry.reads:
            self.reads.write(
                entry.phi,
                _read_labels(entry, after),
                entry.tick,
                replaces=None if before is None else _read_labels(entry, before),
            )

    def _away(self, labels: Mapping[str, float]) -> list[float]:
        return [c for peer, c in labels.items() if peer in self.departed] if self.departed else []

    # --- snapshots -----------------------------------------------------------------------

    def pack(self) -> bytes:
        """The state after line `seq`, bit for bit."""
        meta = {
            "seq": self.seq,
            "peers": list(self.state.peers),
            "reads": list(READS),
            "signs": VERSION,
            "settings": asdict(self.state.settings),
            "revoked": sorted(self.revoked),
            "departed": sorted(self.departed),
        }
        arrays = {f"state.{key}": value for key, value in self.state.arrays().items()}
        arrays.update({f"reads.{key}": value for key, value in self.reads.arrays().items()})
        return pack_arrays(meta, arrays)

    def unpack(self, body: bytes) -> None:
        """Continue from a packed state; one with other reads or signs is left alone: the ledger has all."""
        meta, arrays = unpack_arrays(body)
        if (meta.get("reads"), meta.get("signs")) != (list(READS), VERSION):
            return
        settings = Settings(**meta["settings"])
        parts: dict[str, dict[str, FloatArray]] = {"state": {}, "reads": {}}
        for key, value in arrays.items():
            part, _, name = key.partition(".")
            parts[part][name] = value
        self.state = SigmaState.from_arrays(meta["peers"], settings, parts["state"])
        self._reads = SigmaState.from_arrays(READS, over_reads(settings), parts["reads"])
        self.revoked, self.departed = set(meta["revoked"]), set(meta["departed"])
        self.seq = meta["seq"]


def _entry_from(lines: Iterable[Record], revoked: set[str]) -> Entry | None:
    entry: Entry | None = None
    for line in lines:
        body = line.body
        if line.kind == "decision":
            if entry is None:
                entry = Entry(phi_from_bytes(line.phi), body["tick"])
            entry.answered(body["canons"], body["reads"], signs_from(line), body["probs"])
        elif line.kind == "feedback" and entry is not None:
            entry.tick = body["tick"]
            entry.lines += 1
            if body["source"] not in revoked:
                entry.say(body["labels"], body["source"])
    return entry


def _groups(peers: tuple[str, ...], canons: Mapping[str, str | None]) -> NDArray[np.intp] | None:
    """Answer groups; −1 where an answer could not be read, −2 where none was asked for."""
    if not canons:
        return None
    groups = group([canons.get(peer) for peer in peers])
    return np.where([peer in canons for peer in peers], groups, -2)


def _aligned(names: tuple[str, ...], labels: Mapping[str, float]) -> FloatArray:
    return np.array([labels.get(name, math.nan) for name in names])


def _read_labels(entry: Entry, labels: Mapping[str, float]) -> FloatArray:
    """Labels of the reads: how right the answer was that each chose, relative to the first read's.

    An answer is as right as its peer's label says, or that of a peer that said the same.
    """
    by_answer: dict[str, float] = {}
    for peer, c in labels.items():
        canon = entry.canons.get(peer)
        if canon is not None:
            by_answer.setdefault(canon, c)
    out: NDArray[np.float64] = np.full(len(READS), math.nan)
    for i, read in enumerate(READS):
        peer = entry.reads.get(read, "")
        canon = entry.canons.get(peer)
        out[i] = labels.get(peer, by_answer.get(canon, math.nan) if canon is not None else math.nan)
    return duels(out)
