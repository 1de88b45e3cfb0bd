"""A panel: peers asked one after the other, until the rest would hardly change the answer."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sigma_mem.answers.canon import Canon
from sigma_mem.answers.features import read_answer
from sigma_mem.decide import View
from sigma_mem.decide.panel import CHANGE, change_if_agreed, change_probability, next_peer
from sigma_mem.errors import InputError
from sigma_mem.events import Answer, Decision, FloatArray
from sigma_mem.memory import SigmaState
from sigma_mem.session.checks import checked_count, checked_share

_KNOWN = 4.0  # labelled events after which not every peer is asked any more
_DRAWN = 0.3  # how often the second of them is drawn, so that everyone is seen


def exploring_share(labelled: float) -> float:
    """Share of the exploring panels that ask every peer; it falls as more (decayed) events are labelled.

    >>> [round(exploring_share(n), 2) for n in (0, 12, 96, 2000)]
    [1.0, 0.5, 0.2, 0.04]
    """
    return float(1.0 / np.sqrt(1.0 + labelled / _KNOWN))


@dataclass(frozen=True, slots=True)
class PanelLimits:
    """When a panel stops.

    Attributes
    ----------
    change : float
        Stop once the chance that the rest would change the answer is at most this.
    confidence : float, optional
        Stop as well once the answer is at least this sure.
    calls : int, optional
        Ask at most this many peers.
    among : collection of str, optional
        Ask these peers only.
    explore : bool
        Only peers that were asked will be labelled.
    everyone : bool
        Ask all of them, whatever they answer.
    """

    change: float = CHANGE
    confidence: float | None = None
    calls: int | None = None
    among: Collection[str] | None = None
    explore: bool = False
    everyone: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.change, int | float) or not 0.0 <= self.change <= 1.0:
            raise InputError(f"change is {self.change!r}; expected a chance in [0, 1]")
        checked_share("confidence", self.confidence)
        checked_count("calls", self.calls)
        if self.calls == 0:
            raise InputError(f"calls is {self.calls!r}; expected 1 or more")

    def reached(self, change: float, confidence: float, calls: int) -> bool:
        """Whether to stop here."""
        if self.everyone:
            return False
        sure = self.confidence is not None and confidence >= self.confidence
        return change <= self.change or sure or self.used_up(calls)

    def used_up(self, calls: int) -> bool:
        """Whether no more peers may be asked."""
        return self.calls is not None and calls >= self.calls

    def may_ask(self, peer: str) -> bool:
        """Whether a peer may be asked at all."""
        return self.among is None or peer in self.among


# What to keep with a decision on answers; the last argument is what a call to every peer costs.
Step = Callable[[SigmaState, View, float, FloatArray], Mapping[str, Any]]


class Panel:
    """Peers asked one after the other; made by `SigmaMem.ask`.

    Attributes
    ----------
    next : str | None
        The peer to ask now; None once the answer is sure enough or everyone was asked.
    change : float
        The chance that the peers not asked would change the answer; 1 before the first answer.
    answers : mapping
        The answers so far, by peer, each with its canon; no text and no canon if a peer gave none.
    decision : Decision
        The outcome so far: the choice among the answers given or, before the first, which peer to ask.

    Examples
    --------
    >>> from sigma_mem import SigmaMem
    >>> mem = SigmaMem(["ann", "bob", "cat"], encoder="hashed")
    >>> panel = mem.ask("What is 17 * 23?")
    >>> while panel.next is not None:
    ...     enough = panel.add(panel.next, "391")
    >>> panel.decision.answer, list(panel.answers), enough
    ('391', ['ann', 'bob'], True)
    """

    def __init__(
        self,
        decision: Decision,
        limits: PanelLimits,
        canon: Canon,
        decide: Callable[[Mapping[str, Answer], Step], Decision],
        rng: np.random.Generator,
    ) -> None:
        self.decision = decision
        self.next = decision.peer
        self.change = 1.0
        self.answers: Mapping[str, Answer] = {}
        self._planned = 1  # peers that are asked whatever is answered
        self._limits, self._canon, self._decide, self._rng = limits, canon, decide, rng

    def __repr__(self) -> str:
        asked = f"{len(self.answers)} of {len(self.decision.probs)} asked"
        return f"<Panel {self.decision.event}: {asked}, next {self.next}, change {self.change:.0%}>"

    def add(self, peer: str, answer: str | Answer | None) -> bool:
        """Take an answer (None if the peer failed); return whether the answers are enough.

        The answer may be of another peer than `next`. The same answer again changes nothing.
        """
        read = read_answer(peer, answer, self._canon)
        if self.answers.get(peer, read) != read:
            raise InputError(f"peer {peer!r} has given another answer before; expected one of each peer")
        if peer in self.answers:
            return self.next is None
        answers = {**self.answers, peer: read}
        self._take(self._decide(answers, self._step(answers, peer)), answers)
        return self.next is None

    def resume(self, steps: Iterable[Decision]) -> None:
        """Take up the steps that the ledger keeps of this event, up to the first one without its text."""
        for decision in steps:
            kept = decision.details.get("panel", {}).get("added")
            if kept is None:
                return
            peer, text, canon = kept
            self._take(decision, {**self.answers, peer: Answer(text, canon)})

    def _take(self, decision: Decision, answers: Mapping[str, Answer]) -> None:
        noted = decision.details["panel"]
        self.decision, self.answers = decision, answers
        self.next, self.change = noted["next"], noted["change"]
        self._planned = noted.get("planned", 1)

    def _step(self, answers: Mapping[str, Answer], added: str) -> Step:
        """What to keep with a decision on these answers: the next peer to ask, what the rest may change."""

        def step(state: SigmaState, view: View, confidence: float, costs: FloatArray) -> Mapping[str, Any]:
            names = state.peers
            left = [i for i, peer in enumerate(names) if peer not in answers and self._limits.may_ask(peer)]
            rest = np.array(left, dtype=np.intp)
            change, asked = change_probability(view, rest), len(answers)
            planned = max(self._planned, asked + 1) if self._asks_on(view, rest, asked) else self._planned
            stop = not left or (asked >= planned and self._limits.reached(change, confidence, asked))
            price = costs if costs[rest].all() else None  # prices decide if all have one
            noted: dict[str, Any] = {
                "next": None if stop else names[self._next(view, rest, price)],
                "change": change,
                "added": [added, answers[added].text, answers[added].canon],
            }
            if self._limits.everyone or not self._limits.explore:
                return noted
            return {**noted, "planned": planned, "fair": list(answers)[:planned]}  # see `EventState.evidence`

        return step

    def _asks_on(self, view: View, rest: NDArray[np.intp], asked: int) -> bool:
        """Whether an exploring panel would ask another one even if all that were asked had agreed."""
        limits = self._limits
        if not limits.explore or self._planned < asked or limits.used_up(asked):
            return False
        return change_if_agreed(view, rest) > limits.change

    def _next(self, view: View, rest: NDArray[np.intp], price: FloatArray | None) -> int:
        """The peer to ask next; the second of an exploring panel is sometimes drawn from all."""
        if not self.answers and self._limits.explore and self._rng.random() < _DRAWN:
            return int(self._rng.choice(rest))
        return next_peer(view, rest, price)
