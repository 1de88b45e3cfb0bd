"""The paper's counterfactual attack: right answers of the strong peer are swapped with a wrong peer's."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import floor
from typing import Literal, get_args

from sigma_mem.errors import InputError
from sigma_mem.events import Event
from sigma_mem.streams.stream import Stream, chance

Partner = Literal["random", "weakest", "last"]
PARTNERS: tuple[Partner, ...] = get_args(Partner)


@dataclass(frozen=True, slots=True)
class Attack:
    """What the attack does to one unit (a dataset, or a domain)."""

    unit: str
    strong: str  # the best peer on clean labels; the first listed of equals
    eligible: tuple[tuple[str, str], ...]  # (event id, weak peer) in the order a growing ratio swaps them

    def swapped(self, ratio: float) -> tuple[tuple[str, str], ...]:
        """The part of ``eligible`` that is swapped at ``ratio``: its first ⌊r·n + ½⌋ events."""
        return self.eligible[: floor(ratio * len(self.eligible) + 0.5)]


def counterfactual(stream: Stream, ratio: float, *, seed: int = 0, partner: Partner = "random") -> Stream:
    """Return the stream under attack, CF@r (appendix:counterfactual_dataset).

    Within every unit the peer with the best clean accuracy is the strong peer. An event is eligible if the
    strong peer is right and another one wrong; a peer without a label is neither. In a share ``ratio`` of
    the eligible events of each unit the complete answer (text and canon) and label of the strong peer are
    swapped with those of one wrong peer; peers, order and everything else stay. CF@0 is the stream itself.

    The paper does not specify which of several wrong peers is the ``partner``: one drawn by the seed, the one
    with the lowest clean accuracy in the unit, or the one listed last (docs/lab/paper.md).

    The draw depends on the seed and the event's id alone, so events swapped at 0.5 are swapped, with the
    same peer, at 0.7. The order of the stream does not matter. A unit is a dataset, as in the paper, or a
    domain if the stream has only one dataset: a single strong peer would then be all the attack knows.

    >>> from sigma_mem.events import Answer, Event
    >>> e = Event("e1", "2+2?", {"a": Answer("4", "4"), "b": Answer("5", "5")}, {"a": 1.0, "b": -1.0})
    >>> attacked = counterfactual(Stream("tiny", ("a", "b"), (e,)), 1.0).events[0]
    >>> attacked.answers["b"].text, attacked.correct
    ('4', {'a': -1.0, 'b': 1.0})
    """
    if not 0.0 <= ratio <= 1.0:
        raise InputError(f"got ratio {ratio}; expected a number in [0, 1], such as 0.5 for CF@50")
    partners: dict[str, tuple[str, str]] = {}
    for attack in attack_plan(stream, seed=seed, partner=partner):
        partners.update((event_id, (attack.strong, weak)) for event_id, weak in attack.swapped(ratio))
    if not partners:
        return stream
    events = tuple(_swap(e, *partners[e.id]) if e.id in partners else e for e in stream)
    return Stream(stream.name, stream.peers, events)


def attack_plan(stream: Stream, *, seed: int = 0, partner: Partner = "random") -> tuple[Attack, ...]:
    """Return, for every unit, its strong peer and its eligible events, in the order of attack."""
    if partner not in PARTNERS:
        raise InputError(f"got partner {partner!r}; expected one of {', '.join(PARTNERS)}")
    by_domain = len(stream.datasets) < 2
    units: dict[str, list[Event]] = {}
    for event in stream:
        units.setdefault(event.domain if by_domain else event.dataset, []).append(event)
    return tuple(_attack(name, events, stream.peers, seed, partner) for name, events in units.items())


def _attack(
    name: str, events: Sequence[Event], peers: tuple[str, ...], seed: int, partner: Partner
) -> Attack:
    accuracy = {peer: _accuracy(events, peer) for peer in peers}
    strong = max(peers, key=lambda peer: accuracy[peer])  # the first listed of equals
    choose: dict[Partner, Callable[[str, list[str]], str]] = {
        "random": lambda event, wrong: wrong[int(chance(seed, "weak", event) * len(wrong))],
        "weakest": lambda event, wrong: min(wrong, key=lambda peer: accuracy[peer]),
        "last": lambda event, wrong: wrong[-1],
    }
    eligible = []
    for event in events:
        wrong = [p for p in peers if event.correct.get(p, 0.0) < 0.0]
        if wrong and event.correct.get(strong, 0.0) > 0.0:
            eligible.append((event.id, choose[partner](event.id, wrong)))
    eligible.sort(key=lambda pair: (chance(seed, "swap", pair[0]), pair[0]))
    return Attack(name, strong, tuple(eligible))


def _accuracy(events: Sequence[Event], peer: str) -> float:
    labels = [e.correct[peer] > 0 for e in events if peer in e.correct]
    return sum(labels) / len(labels) if labels else -1.0


def _swap(event: Event, strong: str, weak: str) -> Event:
    answers = {**event.answers, strong: event.answers[weak], weak: event.answers[strong]}
    correct = {**event.correct, strong: event.correct[weak], weak: event.correct[strong]}
    return replace(event, answers=answers, correct=correct)
