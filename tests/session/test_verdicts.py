"""Verdicts of judges in a session: recorded, learned from labels, revoked exactly, explained, replayed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from sigma_mem import SigmaMem
from sigma_mem.admin import refold
from sigma_mem.errors import InputError
from sigma_mem.events import Verdict

PEERS = ["ann", "bob", "cat"]
ANSWERS = {"ann": "1", "bob": "2", "cat": "3"}
PHI = np.array([1.0, 0.0])


def taught(mem: SigmaMem, events: int = 60, strength: float = 2.0, best: float = 1 / 3) -> None:
    """Let one of the peers be right at random, the first with this chance, and a judge see it."""
    rng = np.random.default_rng(0)
    for _ in range(events):
        right = int(rng.choice(3, p=[best, (1.0 - best) / 2.0, (1.0 - best) / 2.0]))
        seen = strength * (np.arange(3) == right) + rng.standard_normal(3)
        said = dict(zip(PEERS, seen.tolist(), strict=True))
        d = mem.decide(None, ANSWERS, phi=PHI, verdicts={"gpt": said})
        mem.feedback(d.id, {peer: i == right for i, peer in enumerate(PEERS)}, source="ci")


def opened(path: Path | None = None, **settings: object) -> SigmaMem:
    return SigmaMem(PEERS, path, rank=2, **settings)  # type: ignore[arg-type]


def test_a_judge_decides_once_labels_have_shown_that_it_knows() -> None:
    mem = opened()
    said = {"gpt": {"ann": 0.0, "bob": 3.0, "cat": 0.0}}
    new = mem.decide(None, ANSWERS, phi=PHI, verdicts=said).details["verdicts"]["gpt"]["bob"]
    assert 0.5 < new < 1.0  # nobody knows what its word is worth yet
    taught(mem)
    d = mem.decide(None, ANSWERS, phi=PHI, verdicts=said)
    assert d.peer == "bob"
    assert d.verdicts == said
    worth = d.details["verdicts"]["gpt"]
    assert worth["bob"] > 1.5 * new > 0.0 > worth["ann"]
    assert mem.vote(None, ANSWERS, phi=PHI, verdicts=said).peer == "bob"


def test_a_blind_judge_and_a_missing_one_change_nothing() -> None:
    mem = opened()
    taught(mem, strength=0.0, events=200, best=0.7)
    plain = mem.decide(None, ANSWERS, phi=PHI)
    blind = mem.decide(None, ANSWERS, phi=PHI, verdicts={"gpt": {"ann": -1.0, "bob": 1.0}})
    assert plain.peer == blind.peer
    assert mem.decide(None, ANSWERS, phi=PHI, verdicts={"gpt": {}, "new": {"ann": 1.0}}).peer == plain.peer


def test_revoked_labels_leave_what_a_judge_is_worth_as_if_they_had_never_been_given() -> None:
    honest, fooled = opened(), opened()
    taught(honest)
    taught(fooled)
    for mem, labels in ((honest, False), (fooled, True)):
        for _ in range(20):
            d = mem.decide(None, ANSWERS, phi=PHI, verdicts={"gpt": {"ann": 9.0, "bob": 0.0, "cat": 0.0}})
            if labels:
                mem.feedback(d.id, {"ann": False, "bob": True, "cat": False}, source="liar")
    fooled.revoke("liar")
    for mine, theirs in zip(_worth(honest), _worth(fooled), strict=True):
        assert mine == pytest.approx(theirs, abs=1e-9)


def _worth(mem: SigmaMem) -> list[float]:
    """What the judge's word is worth now; no event."""
    state, said = mem.state, {"gpt": np.array([1.0, 0.0, 2.0])}
    worth: list[float] = state.verdict_log_odds(said, np.arange(3), PHI, state.now)["gpt"].tolist()
    return worth


def test_a_file_opens_with_what_its_judges_are_worth(tmp_path: Path) -> None:
    with opened(tmp_path / "m.db", snapshot_every=7) as mem:
        taught(mem)
        said = mem.decide(None, ANSWERS, phi=PHI, verdicts={"gpt": {"ann": 1, "cat": None}}).verdicts
        before = _worth(mem)
    with SigmaMem(path=tmp_path / "m.db") as mem:
        assert _worth(mem) == before
        assert next(iter(mem.decisions(last=1))).verdicts == said == {"gpt": {"ann": 1.0}}
    again = tmp_path / "again.db"
    with SigmaMem(path=tmp_path / "m.db") as mem:
        refold(mem, again)
    with SigmaMem(path=again) as mem:
        assert _worth(mem) == pytest.approx(before, abs=1e-2)  # of the p̂ that refold claims again
        assert next(iter(mem.decisions(last=1))).verdicts == said


def test_a_peer_that_leaves_or_is_reset_takes_the_bias_along() -> None:
    mem = opened()
    taught(mem)
    mem.remove_peer("cat")
    d = mem.decide(None, {"ann": "1", "bob": "2"}, phi=PHI, verdicts={"gpt": {"ann": 2.0, "bob": 0.0}})
    assert d.peer == "ann"
    mem.revoke("ci")  # what is taken back has three peers
    d = mem.decide(None, {"ann": "1", "bob": "2"}, phi=PHI, verdicts={"gpt": {"ann": 2.0, "bob": 0.0}})
    new = opened().decide(None, {"ann": "1", "bob": "2"}, phi=PHI, verdicts={"gpt": {"ann": 2.0, "bob": 0.0}})
    assert d.details["verdicts"]["gpt"].items() <= new.details["verdicts"]["gpt"].items()


def test_explain_says_what_each_verdict_did() -> None:
    mem = opened()
    taught(mem)
    d = mem.decide(None, ANSWERS, phi=PHI, verdicts={"gpt": {"ann": 0.0, "bob": 3.0, "cat": 0.0}})
    explained = mem.explain(d.id)
    score, worth = explained.verdicts["gpt"]
    assert (score, worth > 1.0) == (3.0, True)
    assert "judge gpt gave 3, which speaks for it" in str(explained)


@pytest.mark.parametrize(
    "wrong",
    [
        [("gpt", 1.0)],
        {"gpt": 1.0},
        {"": {"ann": 1.0}},
        {"gpt": {"ann": float("nan")}},
        {"gpt": {"ann": "good"}},
        {"gpt": {"zoe": 1.0}},
        {str(i): {"ann": 1.0} for i in range(17)},
    ],
)
def test_what_is_no_verdict_is_refused(wrong: object) -> None:
    with pytest.raises(InputError):
        opened().decide(None, ANSWERS, phi=PHI, verdicts=wrong)  # type: ignore[arg-type]


class Seer:
    """A judge that sees which answer is right."""

    name = "seer"

    def __init__(self) -> None:
        self.right, self.asked, self.fails = "1", 0, False
        self.records: Mapping[str, tuple[float, float]] = {}

    def is_worth(self, gain: float, answers: int) -> bool:
        return gain > 0.0

    def judge(
        self, question: str, answers: Mapping[str, str], records: Mapping[str, tuple[float, float]]
    ) -> Verdict:
        self.asked += 1
        self.records = records
        if self.fails:
            return Verdict({}, failures=("no reply",))
        return Verdict({peer: float(text == self.right) for peer, text in answers.items()}, cost=0.25)


def test_judges_are_asked_and_their_cost_is_kept() -> None:
    seer, rng = Seer(), np.random.default_rng(0)
    mem = SigmaMem(PEERS, encoder="hashed", judges=[seer])
    for n in range(40):
        seer.right = str(rng.integers(1, 4))
        d = mem.decide(f"question {n}", ANSWERS)
        mem.feedback(d.id, {peer: text == seer.right for peer, text in ANSWERS.items()})
    seer.right = "3"
    d = mem.decide("another question", ANSWERS)
    assert d.peer == "cat"
    assert d.verdicts["seer"] == {"ann": 0.0, "bob": 0.0, "cat": 1.0}
    assert mem.decision(d.id).details["judges"]["seer"]["cost"] == 0.25
    assert mem.spent().by_peer == {"judge seer": 0.25 * seer.asked}
    seer.fails = True
    failed = mem.decide("a third question", ANSWERS)
    assert failed.details["judges"]["seer"]["failures"] == ["no reply"]
    assert failed.verdicts == {}
    # The memory's record of every peer is at the judge's disposal, as `trust` has it.
    assert set(seer.records) == set(PEERS)
    prob, labels = seer.records["ann"]
    assert prob < 0.6
    assert labels > 10.0


class Odd(Seer):
    """A judge whose scores are not all numbers of answers."""

    def judge(
        self, question: str, answers: Mapping[str, str], records: Mapping[str, tuple[float, float]]
    ) -> Verdict:
        return Verdict({"ann": True, "bob": None, "cat": float("nan"), "zoe": 1.0})  # type: ignore[dict-item]


def test_what_a_judge_returns_besides_scores_is_a_failure_and_no_exception() -> None:
    d = opened().decide("Who?", ANSWERS, phi=PHI, judges=[Odd()])
    assert d.verdicts == {"seer": {"ann": 1.0}}
    assert "no finite numbers" in d.details["judges"]["seer"]["failures"][0]


def test_a_judge_is_not_asked_if_it_cannot_change_the_choice() -> None:
    seer = Seer()
    mem = SigmaMem(PEERS, encoder="hashed", judges=[seer])
    mem.decide("all say the same", dict.fromkeys(PEERS, "1"))
    mem.decide("it has spoken", ANSWERS, verdicts={"seer": {"ann": 1.0}})
    mem.decide("nobody is asked", ANSWERS, judges=[])
    assert seer.asked == 0
    mem.vote("they differ", ANSWERS)
    assert seer.asked == 1
