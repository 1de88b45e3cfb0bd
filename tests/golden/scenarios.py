"""Small streams of tasks, and what a memory says on the way: every decision, and the state at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from sigma_mem import SigmaMem
from sigma_mem.ledger.costs import Budget
from sigma_mem.memory import Settings

WORDS = {
    "law": ["contract", "court", "liability", "statute", "appeal", "tort", "judge", "claim"],
    "math": ["integral", "prime", "matrix", "series", "root", "angle", "sum", "limit"],
    "code": ["python", "loop", "pointer", "thread", "compile", "stack", "cache", "byte"],
}
TOPICS = tuple(WORDS)
DIGITS = 9


class World:
    """Peers of unequal skill, a memory that decides on their answers, and what it said so far."""

    def __init__(self, peers: int, seed: int = 0, **options: Any) -> None:
        self.rng = np.random.default_rng(seed)
        self.names = [f"peer{i}" for i in range(peers)]
        self.time = 1.7e9
        self.mem = SigmaMem(self.names, encoder="hashed", clock=self._clock, seed=seed, **options)
        self.skill = {name: self.rng.uniform(0.3, 0.95, len(TOPICS)) for name in self.names}
        self.said: list[dict[str, Any]] = []

    def _clock(self) -> float:
        self.time += 1.0
        return self.time

    def task(self) -> tuple[str, dict[str, str | None], dict[str, bool], str]:
        """A question, what every peer answers, who is right, and the topic."""
        kind = int(self.rng.integers(len(TOPICS)))
        words = self.rng.choice(WORDS[TOPICS[kind]], 3)
        question = f"Which option holds for {' and '.join(words)}? A, B, C or D?"
        right = {peer: bool(self.rng.random() < self.skill[peer][kind]) for peer in self.mem.peers}
        answers: dict[str, str | None] = {}
        for peer, holds in right.items():
            option = "A" if holds else str(self.rng.choice(["B", "C", "D"]))
            answers[peer] = f"{'I think that ' * int(self.rng.integers(3))}the answer is {option}"
            if not holds and self.rng.random() < 0.1:
                answers[peer] = None
        return question, answers, right, TOPICS[kind]

    def note(self, decision: Any) -> Any:
        """Keep what a decision said; returns it."""
        self.said.append(
            {
                "read": decision.read,
                "peer": decision.peer,
                "answer": decision.answer,
                "probs": rounded(decision.probs.values()),
                "scores": rounded(decision.scores.values()),
                "confidence": round(decision.confidence, DIGITS),
                "propensity": round(decision.propensity, DIGITS),
                "cost": None if decision.cost is None else round(decision.cost, DIGITS),
            }
        )
        return decision

    def live(self, events: int, verb: str = "decide", labelled: float = 1.0, **options: Any) -> list[Any]:
        """Decide so many tasks; a share of them is labelled at once."""
        made = []
        for _ in range(events):
            question, answers, right, topic = self.task()
            given = {"topic": topic} if options.pop("topics", False) else {}
            if given:
                options["topics"] = True
            named = {key: value for key, value in options.items() if key != "topics"}
            if verb == "route":
                decision = self.note(self.mem.route(question, **given, **named))
            else:
                decision = self.note(getattr(self.mem, verb)(question, answers, **given, **named))
            if self.rng.random() < labelled:
                self.mem.feedback(decision.id, right)
            made.append((decision, right))
        return made

    def before_the_end(self) -> None:
        """For a test that looks at the memory before it is closed."""

    def end(self) -> dict[str, Any]:
        """Every decision, and what the memory has learned."""
        with self.mem.journal as fold:
            state = fold.state
            phi = self.mem.route("Which option holds for prime and court?").phi
            reading = state.read(phi)
            low, high = reading.interval()
            learned = {
                "peers": list(state.peers),
                "clock": state.clock,
                "prob": rounded(reading.prob),
                "score": rounded(reading.score),
                "effective": rounded(reading.effective),
                "interval": [rounded(low), rounded(high)],
                "relation": [rounded(row) for row in state.G],
                "readable": rounded(state.readable),
                "alternatives": round(state.alternatives(phi), DIGITS),
                "labelled": round(state.labelled, DIGITS),
                "text": rounded(state.text_effects()),
                "joint": rounded(state.ballots().joint),
                "likelihood": rounded(state.ballots().likelihood),
            }
        self.before_the_end()
        self.mem.close()
        return {"decisions": self.said, "learned": learned}


def rounded(values: Iterable[float]) -> list[float]:
    return [round(float(value), DIGITS) for value in values]


def one_peer() -> dict[str, Any]:
    world = World(1)
    world.live(12)
    world.live(8, "route")
    return world.end()


def three_peers() -> dict[str, Any]:
    world = World(3)
    for _ in range(6):
        world.live(6)
        world.live(4, "vote", labelled=0.5)
        world.live(2, "route", explore=True)
        world.live(2, "vote", labelled=0.5, min_confidence=0.7)
    return world.end()


def eight_peers() -> dict[str, Any]:
    world = World(8)
    for read in ("m-vote", "majority", "posterior", "calibrated-vote"):
        world.live(8, "vote", labelled=0.7, read=read)
    world.live(40)
    world.live(4, "route", read="m-route")
    return world.end()


def sixteen_peers() -> dict[str, Any]:
    world = World(16)
    world.live(30, labelled=0.5)
    return world.end()


def topics() -> dict[str, Any]:
    world = World(3)
    world.live(40, topics=True)
    world.live(10, "route", topics=True)
    for topic in (*TOPICS, ["law", "math"], "unheard of"):
        world.note(world.mem.route(topic=topic))
    return world.end()


def costs() -> dict[str, Any]:
    world = World(3)
    for name, price in zip(world.names, (0.01, 0.003, 0.0005), strict=True):
        world.mem.set_price(name, per_call=price, latency=price * 100)
    world.live(15)
    for decision, _ in world.live(10, "route"):
        world.mem.served(decision.id, decision.peer, cost=0.02)
    world.live(6, "route", value=0.05)
    world.live(6, "route", min_prob=0.5)
    world.live(15, "route", budget=Budget(0.05, events=20), explore=True)
    world.live(4, "route", max_cost=0.03, among=world.names[:2])
    return world.end()


def panels() -> dict[str, Any]:
    world = World(5)
    for i in range(24):
        question, answers, right, _ = world.task()
        panel = world.mem.ask(question, explore=i % 2 == 1)
        while panel.next is not None:
            peer = panel.next
            panel.add(peer, answers[peer])
            world.note(panel.decision)
        asked = right if i % 4 == 0 else {peer: right[peer] for peer in panel.answers}
        world.mem.feedback(panel.decision.id, asked)
    return world.end()


def sources() -> dict[str, Any]:
    world = World(3)
    for decision, right in world.live(30, labelled=0.0):
        world.mem.feedback(decision.id, right)
        noisy = {peer: holds ^ bool(world.rng.random() < 0.2) for peer, holds in right.items()}
        world.mem.feedback(decision.id, noisy, source="judge")
        if world.rng.random() < 0.5:
            world.mem.feedback(decision.id, dict.fromkeys(right, True), source="flatterer")
    for decision, right in world.live(10, labelled=0.0):
        world.mem.feedback(decision.id, right, source="judge")
        world.mem.feedback(decision.id, dict.fromkeys(right, True), source="flatterer")
    world.live(4)
    world.mem.revoke("flatterer")
    world.live(4)
    return world.end()


def named_sources() -> dict[str, Any]:
    world = World(3, settings=Settings(trusted=("tests",)))
    for decision, right in world.live(30, labelled=0.0):
        if world.rng.random() < 0.5:
            world.mem.feedback(decision.id, right, source="tests")
        world.mem.feedback(decision.id, right, source="judge")
    world.live(6, labelled=0.0)
    return world.end()


def changing_peers() -> dict[str, Any]:
    world = World(4)
    early = world.live(20, labelled=0.8)
    world.mem.rename_peer("peer0", "first")
    world.skill["first"] = world.skill["peer0"]
    world.live(6)
    world.mem.add_peer("late")
    world.skill["late"] = world.skill["peer1"]
    world.live(10, labelled=0.7)
    world.mem.remove_peer("peer2")
    for decision, right in early:
        world.mem.feedback(decision.id, {peer: not holds for peer, holds in right.items()}, source="again")
    world.live(8)
    return world.end()


def forgotten() -> dict[str, Any]:
    world = World(3)
    made = world.live(20)
    world.mem.forget([decision.id for decision, _ in made[5:12]])
    world.live(8)
    return world.end()


def late_and_amended() -> dict[str, Any]:
    world = World(3)
    late = world.live(12, labelled=0.0)
    world.live(8)
    for decision, right in late:
        world.mem.feedback(decision.id, right)
    for decision, right in late[::2]:
        world.mem.feedback(decision.id, {peer: not holds for peer, holds in right.items()}, amend=True)
    world.live(8)
    return world.end()


def one_gamma() -> dict[str, Any]:
    world = World(3, settings=Settings(gamma=0.95, prior=0.4))
    world.live(60, labelled=0.6)
    return world.end()


def by_time() -> dict[str, Any]:
    world = World(3, settings=Settings(decay="time", half_life=100.0))
    world.live(20)
    world.time += 500.0
    world.live(20, labelled=0.5)
    return world.end()


def by_label() -> dict[str, Any]:
    world = World(2, settings=Settings(decay="labelled", regression=False, agreement=False))
    world.live(40, labelled=0.5)
    return world.end()


SCENARIOS: dict[str, Callable[[], dict[str, Any]]] = {
    scenario.__name__: scenario
    for scenario in (
        one_peer,
        three_peers,
        eight_peers,
        sixteen_peers,
        topics,
        costs,
        panels,
        sources,
        named_sources,
        changing_peers,
        forgotten,
        late_and_amended,
        one_gamma,
        by_time,
        by_label,
    )
}
