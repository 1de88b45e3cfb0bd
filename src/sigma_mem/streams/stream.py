"""A recorded stream: peers, and the events they answered, in order; and draws that depend on a seed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b, sha256
from typing import Any, TypeVar

import numpy as np

from sigma_mem.errors import InputError
from sigma_mem.events import Event, FloatArray

T = TypeVar("T")
_ORDERS = ("-ab", "-ba")  # how ids of the two orders of a pair end


@dataclass(frozen=True)
class Stream:
    """A sequence of events answered by the same peers; not every event needs an answer or label of each.

    Examples
    --------
    >>> from sigma_mem.events import Answer, Event
    >>> e = Event("e1", "2+2?", {"a": Answer("4", "4"), "b": Answer("5", "5")}, {"a": 1.0, "b": -1.0})
    >>> stream = Stream("tiny", ("a", "b"), (e,))
    >>> len(stream), stream.select(peers=["b"]).events[0].correct
    (1, {'b': -1.0})
    """

    name: str
    peers: tuple[str, ...]  # in the order in which ties are broken
    events: tuple[Event, ...]

    def __len__(self) -> int:
        return len(self.events)

    def __iter__(self) -> Iterator[Event]:
        return iter(self.events)

    @cached_property
    def sha256(self) -> str:
        """Hash of the content: the peers, then every event as :func:`save_stream` writes it."""
        digest = sha256("\x1f".join(self.peers).encode() + b"\n")
        for event in self.events:
            digest.update(to_line(event).encode())
        return digest.hexdigest()

    @property
    def domains(self) -> tuple[str, ...]:
        """The domains, in order of first appearance."""
        return tuple(dict.fromkeys(e.domain for e in self.events))

    @property
    def datasets(self) -> tuple[str, ...]:
        """The datasets, in order of first appearance."""
        return tuple(dict.fromkeys(e.dataset for e in self.events))

    def labels(self) -> FloatArray:
        """Correctness c as an array (events, peers); NaN if there is no label."""
        return self._array([e.correct for e in self.events])

    def canons(self) -> list[list[str | None]]:
        """Canonical answers, one row per event in the order of ``peers``; None if unreadable or absent."""
        return [[e.answers[p].canon if p in e.answers else None for p in self.peers] for e in self.events]

    def costs(self) -> FloatArray:
        """What every call cost, as an array (events, peers); NaN if it was not recorded."""
        return self._array([e.costs for e in self.events])

    def _array(self, by_peer: Sequence[Mapping[str, float]]) -> FloatArray:
        rows = [[of.get(p, np.nan) for p in self.peers] for of in by_peer]
        return np.array(rows, dtype=np.float64).reshape(len(rows), len(self.peers))

    def select(
        self,
        *,
        peers: Sequence[str] | None = None,
        domains: Sequence[str] | None = None,
        datasets: Sequence[str] | None = None,
        seed: int | None = None,
        limit: int | None = None,
    ) -> Stream:
        """Return the selected part: peers and domains first, then the order, then the limit.

        With a ``seed`` the events are shuffled; the place of an event depends on its id and
        the seed only, so two selections keep their common events in the same relative order. Both orders
        of a pair (`pair_of`) stay together. Without a seed the order stays. An event left without any
        answer is dropped.
        """
        if limit is not None and limit < 0:
            raise InputError(f"got limit {limit}; expected 0 or more")
        events, chosen = self.events, self.peers
        for what, wanted, known in (("domain", domains, self.domains), ("dataset", datasets, self.datasets)):
            if wanted is not None:
                kept = _checked(what, wanted, known)
                events = tuple(e for e in events if getattr(e, what) in kept)
        if peers is not None and tuple(peers) != self.peers:
            chosen = _checked("peer", peers, self.peers)
            if len(set(chosen)) != len(chosen) or not chosen:
                raise InputError(f"got peers {list(peers)}; expected at least one, each once")
            events = tuple(e for e in (_of_peers(e, chosen) for e in events) if e.answers)
        if seed is not None:
            events = tuple(sorted(events, key=lambda e: (chance(seed, "order", pair_of(e.id)), e.id)))
        return Stream(self.name, chosen, events[:limit])


def _checked(what: str, wanted: Sequence[str], known: tuple[str, ...]) -> tuple[str, ...]:
    """The selected names, all of which the stream must hold."""
    if isinstance(wanted, str):
        raise InputError(f"got {what}s={wanted!r}; expected a list of names")
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise InputError(f"no {what} {unknown[0]!r} in this stream; it has {', '.join(known)}")
    return tuple(wanted)


def _of_peers(event: Event, peers: tuple[str, ...]) -> Event:
    def kept(of: Mapping[str, T]) -> dict[str, T]:
        return {p: of[p] for p in peers if p in of}

    costs, latency = kept(event.costs), kept(event.latency)
    return replace(
        event, answers=kept(event.answers), correct=kept(event.correct), costs=costs, latency=latency
    )


def pair_of(id: str) -> str:
    """What an event's id shares with that of the same task in the other order: all but a last -ab or -ba.

    Judges are asked twice which of two outputs is better, with the outputs swapped. Those are two events of
    one task, so neither may be labelled before both are decided.

    >>> pair_of("natural-007-ab"), pair_of("natural-007-ba"), pair_of("natural-007")
    ('natural-007', 'natural-007', 'natural-007')
    """
    return id[:-3] if id.endswith(_ORDERS) else id


def chance(seed: int, *key: str) -> float:
    """Return a uniform number in [0, 1) that depends on ``seed`` and ``key`` alone.

    Shuffles, swaps and revealed labels are drawn this way rather than from a generator that is advanced
    event by event. So the draw for an event does not move when another event, peer or ratio is added, and
    it is the same on every platform and numpy version.
    """
    text = "\x1f".join((str(seed), *key))
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return (int.from_bytes(digest, "little") >> 11) * 2.0**-53  # the 53 bits a double holds


def to_line(event: Event) -> str:
    """Write one event as one line of JSON, newline included: labels ±1 become true and false."""
    record: dict[str, Any] = {
        "id": event.id,
        "dataset": event.dataset,
        "domain": event.domain,
        "question": event.question,
        "reference": event.reference,
        "answers": {peer: {"text": a.text, "canon": a.canon} for peer, a in event.answers.items()},
        "correct": {peer: c > 0 if abs(c) == 1.0 else c for peer, c in event.correct.items()},
    }
    for key, by_peer in (("costs", event.costs), ("latency", event.latency)):
        if by_peer:
            record[key] = dict(by_peer)
    return json.dumps(record, ensure_ascii=False) + "\n"
