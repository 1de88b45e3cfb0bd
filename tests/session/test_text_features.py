"""What a memory learns from the texts of answers, through the public object."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sigma_mem import Settings, SigmaMem
from sigma_mem.answers.features import FEATURES, Answers, prepare_answers
from sigma_mem.errors import InputError
from sigma_mem.events import Decision
from sigma_mem.memory import SigmaState

PEERS = ("ann", "bob", "cat")
PHI = np.array([1.0, 0.0])
CAREFUL, CARELESS = "3 + 4 = 7, so it is {}", "{} {} {} {}"


def answers(i: int, careful: str) -> dict[str, str]:
    """Everyone says something else; one of them shows its work."""
    return {
        peer: (CAREFUL if peer == careful else CARELESS).replace("{}", str(10 * i + p))
        for p, peer in enumerate(PEERS)
    }


def taught(mem: SigmaMem, n: int = 120, seed: int = 0) -> SigmaMem:
    """Whoever shows its work is right, and everybody does so as often as the others."""
    rng = np.random.default_rng(seed)
    for i in range(n):
        careful = PEERS[int(rng.integers(3))]
        d = mem.decide("What is 3 + 4?", answers(i, careful), phi=PHI)
        mem.feedback(d.id, {peer: peer == careful for peer in PEERS})
    return mem


@pytest.mark.parametrize("keep_text", [True, False])
def test_an_answer_whose_text_is_like_that_of_right_ones_is_trusted_whoever_gave_it(keep_text: bool) -> None:
    mem = taught(SigmaMem(PEERS, rank=2, keep_text=keep_text))
    for careful in PEERS:
        d = mem.vote("What is 3 + 4?", answers(7, careful), phi=PHI)
        assert d.peer == careful
        assert max(d.probs.values()) < 0.5  # no record says so
        assert d.details["text_log_odds"][careful] > 0.5
        assert "the text of its answer speaks for it" in str(mem.explain(d.id))
        other = next(peer for peer in PEERS if peer != careful)
        assert "the text of its answer speaks against it" in str(mem.explain(d.id, peer=other))


def test_text_features_can_be_turned_off(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    with SigmaMem(PEERS, path, rank=2, settings=Settings(text_features=False)) as mem:
        taught(mem)
    with SigmaMem(path=path) as mem:
        d = mem.vote("What is 3 + 4?", answers(7, "bob"), phi=PHI)
        assert not d.features
        assert "text_log_odds" not in d.details
        assert not len(weights(mem))


def test_a_new_peer_is_read_with_what_the_others_taught() -> None:
    mem = taught(SigmaMem(PEERS, rank=2))
    mem.add_peer("dan")
    texts = {"ann": CARELESS.format(1, 1, 1, 1), "dan": CAREFUL.format(2)}
    assert mem.vote("What is 3 + 4?", texts, phi=PHI).details["text_log_odds"]["dan"] > 0.3


def test_features_say_nothing_of_answers_that_nothing_is_known_of() -> None:
    mem = SigmaMem(PEERS, rank=2)
    d = mem.vote("What is 3 + 4?", answers(1, "bob"), phi=PHI)
    assert "text_log_odds" not in d.details
    assert set(d.features) == set(PEERS)
    assert {len(row) for row in d.features.values()} == {len(FEATURES)}
    assert not mem.vote("What?", {"ann": "7"}, phi=PHI).features  # nothing to compare it with
    assert not mem.route("What?", phi=PHI).features


def test_an_unreadable_answer_has_no_features() -> None:
    mem = taught(SigmaMem(PEERS, rank=2))
    d = mem.vote("What is 3 + 4?", {"ann": "3 + 4 = 7", "bob": "8", "cat": None}, phi=PHI)
    assert set(d.features) == {"ann", "bob"}
    assert d.details["text_log_odds"]["cat"] == 0.0


def weights(mem: SigmaMem) -> np.ndarray:
    return mem.state.text_effects()


def test_late_amended_and_revoked_labels_count_as_they_stand() -> None:
    """The same events with the same last labels, whatever was said on the way."""
    straight, winding = (SigmaMem(PEERS, rank=2) for _ in range(2))
    ids = []
    for mem in (straight, winding):
        ids.append([mem.vote("What is 3 + 4?", answers(i, PEERS[i % 3]), phi=PHI).id for i in range(30)])
    for i in range(30):
        straight.feedback(ids[0][i], {peer: p == i % 3 for p, peer in enumerate(PEERS)})
    for i in reversed(range(30)):
        winding.feedback(ids[1][i], {"ann": i % 2 == 0})
        winding.feedback(ids[1][i], dict.fromkeys(PEERS, True), source="liar")
        winding.feedback(ids[1][i], {peer: p == i % 3 for p, peer in enumerate(PEERS)}, amend=True)
    winding.revoke("liar")
    assert np.abs(weights(straight)).max() > 0.01
    np.testing.assert_allclose(weights(winding), weights(straight), atol=1e-9)


@pytest.mark.parametrize("keep_text", [True, False])
@pytest.mark.parametrize("open_events", [2, 4096])
def test_every_label_is_held_against_what_was_expected_at_its_decision(
    monkeypatch: pytest.MonkeyPatch, keep_text: bool, open_events: int
) -> None:
    """Some labels come late and after their event was put away, some never."""
    monkeypatch.setattr("sigma_mem.ledger.fold._OPEN_EVENTS", open_events)
    settings = Settings(gamma=0.9)
    mem = SigmaMem(PEERS, rank=2, settings=settings, keep_text=keep_text)
    expected = SigmaState(PEERS, 2, settings, len(FEATURES))
    rng = np.random.default_rng(3)
    waiting: list[Decision] = []
    for i in range(80):
        waiting.append(mem.vote("What is 3 + 4?", answers(i, PEERS[int(rng.integers(3))]), phi=PHI))
        if i % 2:
            d = waiting.pop(int(rng.integers(len(waiting))))
            said = {peer: bool(rng.random() < 0.5) for peer in PEERS[: int(rng.integers(1, 4))]}
            mem.feedback(d.id, said)
            residual = [
                (1.0 if said[peer] else -1.0) - (2 * d.probs[peer] - 1) if peer in said else np.nan
                for peer in PEERS
            ]
            expected.write_texts(np.array([d.features[peer] for peer in PEERS]), np.array(residual), d.tick)
    np.testing.assert_allclose(evidence(mem)[:-1, :], evidence_of(expected, mem.state.now)[:-1, :], atol=1e-9)
    fresh = mem.journal.replayed().state
    assert np.array_equal(fresh.sums["features"], mem.state.sums["features"])


def evidence(mem: SigmaMem) -> np.ndarray:
    return evidence_of(mem.state, mem.state.now)


def evidence_of(state: SigmaState, now: float) -> np.ndarray:
    found: np.ndarray = state.sums["features"][:-1] * state.sums.factors("features", now)
    return found


def test_labels_are_about_the_last_answers_before_them() -> None:
    """Drafts are revised before anyone is right or wrong; a look after that changes nothing."""
    once, revised = (SigmaMem(PEERS, rank=2) for _ in range(2))
    for mem in (once, revised):
        if mem is revised:
            draft = mem.vote("What is 3 + 4?", answers(9, "ann"), phi=PHI)
        after = draft.id if mem is revised else None
        d = mem.vote("What is 3 + 4?", answers(1, "bob"), phi=PHI, after=after)
        mem.feedback(d.id, {"ann": False, "bob": False, "cat": False})
        if mem is revised:
            mem.vote("What is 3 + 4?", answers(2, "cat"), phi=PHI, after=d.id)
        mem.feedback(d.id, {"bob": True}, amend=True)
    np.testing.assert_allclose(evidence(revised), evidence(once), atol=1e-12)


def test_answers_that_come_after_a_label_are_not_taken_back_with_it() -> None:
    mem = taught(SigmaMem(PEERS, rank=2))
    before, alternatives = evidence(mem), mem.state.alternatives(PHI)
    for i in range(30):
        d = mem.route("What is 3 + 4?", phi=PHI)
        mem.feedback(d.id, dict.fromkeys(PEERS, False), source="liar")
        mem.decide("What is 3 + 4?", answers(i, "cat"), phi=PHI, after=d.id)
    mem.revoke("liar")
    decayed = mem.settings.gamma**30
    np.testing.assert_allclose(evidence(mem), decayed * before, rtol=1e-9)
    assert mem.state.alternatives(PHI) == pytest.approx(alternatives, rel=0.1)


@pytest.mark.parametrize("put_away", [True, False])
def test_a_decision_without_answers_takes_nothing_away(
    monkeypatch: pytest.MonkeyPatch, put_away: bool
) -> None:
    monkeypatch.setattr("sigma_mem.ledger.fold._OPEN_EVENTS", 1 if put_away else 9)
    mem = SigmaMem(PEERS, rank=2)
    d = mem.vote("What is 3 + 4?", {"ann": "it is 7", "bob": "8", "cat": None}, phi=PHI)
    mem.route("What is 3 + 4?", phi=PHI, after=d.id)
    mem.route("What is 3 + 5?", phi=PHI)
    mem.feedback(d.id, {"ann": True, "bob": False, "cat": False})
    assert np.abs(weights(mem)).max() > 0.0
    assert mem.state.readable.round(2).tolist() == [1.0, 1.0, 0.67]


def test_a_peer_that_leaves_while_answers_are_read_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    mem = SigmaMem(PEERS, rank=2)

    def leave(*args: Any) -> Answers:
        found = prepare_answers(*args)
        mem.remove_peer("bob")
        return found

    monkeypatch.setattr("sigma_mem.session.sigma.prepare_answers", leave)
    with pytest.raises(InputError, match="'bob' is not in the pool"):
        mem.vote("What is 3 + 4?", answers(1, "bob"), phi=PHI)
    assert mem.events == 0


def test_a_decision_is_the_callers_to_change() -> None:
    mem = SigmaMem(PEERS, rank=2)
    d = mem.vote("What is 3 + 4?", answers(1, "bob"), phi=PHI)
    d.phi[:] = 0.0
    for handed_out in (d.probs, d.scores, d.canons, d.features):
        assert isinstance(handed_out, dict)
        handed_out.clear()
    again = mem.decision(d.id)
    again.canons.clear()
    again.details["mine"] = 1
    assert set(mem.decision(d.id).canons) == set(PEERS)
    assert not {**mem.route(phi=PHI).details, **mem.decision(d.id).details}
    assert mem.vote("What is 3 + 4?", answers(1, "bob"), after=d.id).phi.any()
    mem.feedback(d.id, {"ann": False, "bob": True, "cat": False})
    assert np.abs(weights(mem)).max() > 0.0


def test_reads_that_do_not_look_say_nothing_of_it() -> None:
    mem = taught(SigmaMem(PEERS, rank=2))
    looks = {
        read: "text_log_odds" in mem.vote("What is 3 + 4?", answers(7, "bob"), phi=PHI, read=read).details
        for read in ("calibrated-vote", "majority", "m-vote", "posterior")
    }
    assert [read for read in looks if looks[read]] == ["calibrated-vote"]
    d = mem.decide("What is 3 + 4?", answers(7, "bob"), phi=PHI)
    assert d.details["text_log_odds"]["bob"] > 0.5


def test_a_peer_that_gave_no_answer_is_as_one_that_was_not_asked() -> None:
    mem = SigmaMem(PEERS, rank=2)
    texts = {"ann": "it is 3 + 4 = 7", "bob": "it is 8"}
    asked, not_asked = mem.vote("What?", {**texts, "cat": None}, phi=PHI), mem.vote("What?", texts, phi=PHI)
    assert asked.features == not_asked.features


def test_labels_of_a_peer_that_has_left_still_count() -> None:
    on_time, late = (SigmaMem(PEERS, rank=2) for _ in range(2))
    for mem in (on_time, late):
        d = mem.vote("What is 3 + 4?", answers(1, "bob"), phi=PHI)
        labels = {"ann": False, "bob": True, "cat": False}
        if mem is on_time:
            mem.feedback(d.id, labels)
        mem.remove_peer("bob")
        if mem is late:
            mem.feedback(d.id, labels)
    assert np.abs(weights(on_time)).max() > 0.0
    np.testing.assert_allclose(weights(late), weights(on_time), atol=1e-12)


def test_features_of_another_version_are_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither its snapshot nor what its decisions saw; the rest of the ledger counts."""
    path = tmp_path / "memory.db"
    with monkeypatch.context() as other:
        other.setattr("sigma_mem.session.task.FEATURES_VERSION", 0)
        other.setattr("sigma_mem.ledger.lines.FEATURES_VERSION", 0)
        other.setattr("sigma_mem.ledger.event.FEATURES_VERSION", 0)
        other.setattr("sigma_mem.ledger.snapshot.FEATURES_VERSION", 0)
        with SigmaMem(PEERS, path, rank=2) as mem:
            d = mem.vote("What is 3 + 4?", answers(1, "bob"), phi=PHI)
            taught(mem, 20)
            assert weights(mem).any()
    with SigmaMem(path=path) as mem:
        assert mem.events == 21
        assert not weights(mem).any()
        assert not mem.decision(d.id).features
        mem.feedback(d.id, {"ann": True, "bob": False})
        assert not weights(mem).any()
