"""A recorded stream: peers, and the events they answered, in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256

import numpy as np

from sigma_mem.errors import InputError
from sigma_mem.events import Event, FloatArray
from sigma_mem.streams.chance import chance
from sigma_mem.streams.lines import to_line

__all__ = ["Stream"]


@dataclass(frozen=True)
class Stream:
    """A sequence of events answered by the same peers.

    Attributes
    ----------
    name : str
        What reports call it; usually the file's name without its endings.
    peers : tuple of str
        In the order in which ties are broken.
    events : tuple of Event
        An event need not hold an answer, or a label, of every peer.

    Examples
    --------
    >>> from sigma_mem.events import Answer, Event
    >>> e = Event("e1", "2+2?", {"a": Answer("4", "4"), "b": Answer("5", "5")}, {"a": 1.0, "b": -1.0})
    >>> stream = Stream("tiny", ("a", "b"), (e,))
    >>> len(stream), stream.select(peers=["b"]).events[0].correct
    (1, {'b': -1.0})
    """

    name: str
    peers: tuple[str, ...]
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
        """Correctness c as an array (events, peers); NaN where there is no label."""
        nan = float("nan")
        rows = [[e.correct.get(p, nan) for p in self.peers] for e in self.events]
        return np.array(rows, dtype=np.float64).reshape(len(self.events), len(self.peers))

    def canons(self) -> list[list[str | None]]:
        """Canonical answers, one row per event in the order of ``peers``; None where unreadable or absent."""
        return [
            [answer.canon if (answer := e.answers.get(p)) is not None else None for p in self.peers]
            for e in self.events
        ]

    def select(
        self,
        *,
        peers: Sequence[str] | None = None,
        domains: Sequence[str] | None = None,
        datasets: Sequence[str] | None = None,
        seed: int | None = None,
        limit: int | None = None,
    ) -> Stream:
        """Return the part asked for: peers and domains first, then the order, then the limit.

        With a ``seed`` the events are shuffled; the place of an event depends on its id and
        the seed only, so two selections keep their common events in the same relative order.
        Without one the order stays. An event left without any answer is dropped.

        Raises
        ------
        InputError
            For a peer, domain or dataset the stream does not hold, a repeated peer, or a negative limit.
        """
        if limit is not None and limit < 0:
            raise InputError(f"limit is {limit}; expected 0 or more")
        events = self.events
        if domains is not None:
            events = _keep(events, "domain", domains, self.domains, lambda e: e.domain)
        if datasets is not None:
            events = _keep(events, "dataset", datasets, self.datasets, lambda e: e.dataset)
        chosen = self.peers
        if peers is not None and tuple(peers) != self.peers:
            chosen = _checked_peers(peers, self.peers)
            events = tuple(e for e in (_of_peers(e, chosen) for e in events) if e.answers)
        if seed is not None:
            events = tuple(sorted(events, key=lambda e: chance(seed, "order", e.id)))
        return Stream(self.name, chosen, events[:limit])


def _checked_peers(peers: Sequence[str], known: tuple[str, ...]) -> tuple[str, ...]:
    if isinstance(peers, str):
        raise InputError(f"peers is the string {peers!r}; expected a list of names")
    unknown = [p for p in peers if p not in known]
    if unknown:
        raise InputError(f"no peer {unknown[0]!r} in this stream; it has {', '.join(known)}")
    if len(set(peers)) != len(peers):
        raise InputError(f"peers {list(peers)} name one twice; list each once")
    if not peers:
        raise InputError(f"no peer was chosen; choose among {', '.join(known)}")
    return tuple(peers)


def _of_peers(event: Event, peers: tuple[str, ...]) -> Event:
    answers = {p: event.answers[p] for p in peers if p in event.answers}
    correct = {p: event.correct[p] for p in peers if p in event.correct}
    return replace(event, answers=answers, correct=correct)


def _keep(
    events: tuple[Event, ...],
    what: str,
    wanted: Sequence[str],
    known: tuple[str, ...],
    value: Callable[[Event], str],
) -> tuple[Event, ...]:
    if isinstance(wanted, str):
        raise InputError(f"{what}s is the string {wanted!r}; expected a list of names")
    unknown = [w for w in wanted if w not in known]
    if unknown:
        raise InputError(f"no {what} {unknown[0]!r} in this stream; it has {', '.join(known)}")
    return tuple(e for e in events if value(e) in wanted)
