"""A panel in a session: one event, steps in the ledger, limits, and going on after a restart."""

import asyncio

import numpy as np
import pytest

from sigma_mem import AsyncSigmaMem, SigmaMem
from sigma_mem.errors import InputError

PEERS = ["ann", "bob", "cat", "dan"]
QUESTION = "What is 17 * 23?"


@pytest.fixture
def mem():
    memory = SigmaMem(PEERS, encoder="hashed", seed=0)
    for _ in range(30):  # ann is mostly right, dan mostly wrong
        d = memory.vote(QUESTION, {"ann": "391", "bob": "391", "cat": "391", "dan": "7"})
        memory.feedback(d, {"ann": True, "bob": True, "cat": True, "dan": False})
    return memory


def ask_all(panel, answers):
    while panel.next is not None:
        panel.add(panel.next, answers[panel.next])
    return panel


def test_good_peers_that_agree_are_enough(mem):
    panel = ask_all(mem.ask(QUESTION), dict.fromkeys(PEERS, "391"))
    assert panel.decision.answer == "391"
    assert len(panel.answers) < len(PEERS)
    assert "dan" not in panel.answers
    assert panel.change <= 0.2


def test_a_panel_is_one_event_and_feedback_reaches_it(mem):
    before = mem.events
    panel = ask_all(mem.ask(QUESTION), dict.fromkeys(PEERS, "391"))
    assert mem.events == before + 1
    mem.feedback(panel.decision, dict.fromkeys(panel.answers, True))
    assert set(mem.decision(panel.decision).labels) == set(panel.answers)
    live, replayed = mem.state, mem.journal.replayed().state
    for name, array in live.pack().items():
        np.testing.assert_array_equal(array, replayed.pack()[name], err_msg=name)


def test_disagreement_asks_on():
    memory = SigmaMem(PEERS, encoder="hashed")  # nothing is known of anybody
    agree = ask_all(memory.ask(QUESTION), dict.fromkeys(PEERS, "391"))
    differ = ask_all(memory.ask(QUESTION), dict(zip(PEERS, ("1", "2", "3", "4"), strict=True)))
    assert len(differ.answers) > len(agree.answers)


def test_where_only_those_asked_are_labelled_the_first_two_are_a_fair_sample(mem, monkeypatch):
    monkeypatch.setattr("sigma_mem.session.sigma.exploring_share", lambda labelled: 0.0)
    answers = dict(zip(PEERS, ("1", "2", "3", "4"), strict=True))
    panel = ask_all(mem.ask(QUESTION, explore=True, change=0.0), answers)
    first, second, *later = panel.answers
    assert later
    before = mem.trust(QUESTION)
    mem.feedback(panel.decision, dict.fromkeys(panel.answers, False))
    after = mem.trust(QUESTION)
    assert after[first].effective > before[first].effective
    assert after[second].effective > before[second].effective
    assert all(after[peer].effective == before[peer].effective for peer in later)
    live, replayed = mem.state, mem.journal.replayed().state
    for name, array in live.pack().items():
        np.testing.assert_array_equal(array, replayed.pack()[name], err_msg=name)


def test_an_exploring_panel_asks_as_many_as_agreement_would_take_whatever_they_say(monkeypatch):
    monkeypatch.setattr("sigma_mem.session.sigma.exploring_share", lambda labelled: 0.0)
    memory = SigmaMem(PEERS, encoder="hashed", seed=0)
    sure_at_once = {"confidence": 0.0}
    assert len(ask_all(memory.ask(QUESTION, **sure_at_once), dict.fromkeys(PEERS, "391")).answers) == 1
    panel = ask_all(memory.ask(QUESTION, explore=True, **sure_at_once), dict.fromkeys(PEERS, "391"))
    assert len(panel.answers) > 1
    memory.feedback(panel.decision, dict.fromkeys(panel.answers, True))
    assert all(memory.trust(QUESTION)[peer].effective > 0.0 for peer in panel.answers)
    assert len(ask_all(memory.ask(QUESTION, explore=True, calls=1), dict.fromkeys(PEERS, "391")).answers) == 1


def test_every_step_knows_the_name_of_its_event(mem):
    panel = ask_all(mem.ask(QUESTION, ref="task-9"), dict.fromkeys(PEERS, "391"))
    assert panel.decision.ref == "task-9"


def test_where_all_are_labelled_all_labels_count(mem):
    panel = ask_all(mem.ask(QUESTION, explore=True, calls=2), dict.fromkeys(PEERS, "391"))
    before = mem.trust(QUESTION)
    mem.feedback(panel.decision, dict.fromkeys(PEERS, True))
    after = mem.trust(QUESTION)
    assert all(after[peer].effective > before[peer].effective for peer in PEERS)


def test_exploring_panels_ask_everyone_ever_less_often():
    memory = SigmaMem(PEERS, rank=2, seed=0)
    asked = []
    for _ in range(200):
        panel = ask_all(memory.ask(phi=[1.0, 0.0], explore=True, change=1.0), dict.fromkeys(PEERS, "1"))
        asked.append(len(panel.answers))
        memory.feedback(panel.decision, dict.fromkeys(panel.answers, True))
    assert asked[0] == len(PEERS)
    assert set(asked) == {1, len(PEERS)}
    early, late = asked[:50].count(len(PEERS)), asked[150:].count(len(PEERS))
    assert early > late > 0


def test_the_second_of_an_exploring_panel_is_sometimes_drawn(mem):
    def second(explore):
        panel = mem.ask(QUESTION, explore=explore, change=0.0)
        panel.add(panel.next, "391")
        return panel.next

    assert len({second(False) for _ in range(5)}) == 1
    drawn = [second(True) for _ in range(60)]
    assert set(drawn) == {"bob", "cat", "dan"}
    assert drawn.count(second(False)) > 30  # most often it is the one that an ordinary panel asks


def test_limits(mem):
    answers = dict(zip(PEERS, ("1", "2", "3", "4"), strict=True))
    assert len(ask_all(mem.ask(QUESTION, calls=1), answers).answers) == 1
    assert set(ask_all(mem.ask(QUESTION, among=["cat", "dan"], change=0.0), answers).answers) <= {
        "cat",
        "dan",
    }
    assert len(ask_all(mem.ask(QUESTION, change=0.0, confidence=0.0), answers).answers) == 1


def test_a_peer_that_fails_is_passed_over(mem):
    panel = mem.ask(QUESTION)
    first = panel.next
    panel.add(first, None)
    assert panel.next not in (None, first)
    assert panel.decision.peer is None
    panel.add(panel.next, "391")
    assert panel.decision.answer == "391"


def test_the_same_answer_again_changes_nothing_and_another_one_is_an_error(mem):
    panel = mem.ask(QUESTION)
    first = panel.next
    panel.add(first, "391")
    decision = panel.decision
    panel.add(first, "391")
    assert panel.decision is decision
    with pytest.raises(InputError, match="another answer before"):
        panel.add(first, "392")
    with pytest.raises(InputError, match="not in the pool"):
        panel.add("eve", "391")


@pytest.mark.parametrize("wrong", [{"change": 1.5}, {"calls": 0}, {"confidence": -0.1}])
def test_bad_limits_are_refused_and_nothing_is_recorded(mem, wrong):
    before = mem.events
    with pytest.raises(InputError):
        mem.ask(QUESTION, **wrong)
    assert mem.events == before


def test_a_panel_goes_on_after_a_restart(tmp_path):
    path = tmp_path / "memory.db"
    with SigmaMem(PEERS, path, encoder="hashed") as memory:
        panel = memory.ask(QUESTION, ref="task-7", change=0.0)
        panel.add("bob", "391")
        panel.add("dan", None)
        stood = panel.next, panel.change, dict(panel.answers)
    with SigmaMem(path=path) as memory:
        again = memory.ask(QUESTION, ref="task-7", change=0.0)
        assert (again.next, again.change, dict(again.answers)) == stood
        ask_all(again, dict.fromkeys(PEERS, "391"))
        assert again.decision.event == panel.decision.event
        assert again.decision.answer == "391"


def test_without_texts_a_panel_begins_again(tmp_path):
    path = tmp_path / "memory.db"
    with SigmaMem(PEERS, path, encoder="hashed", keep_text=False) as memory:
        memory.ask(QUESTION, ref="task-7").add("bob", "a secret")
        panel = memory.ask(QUESTION, ref="task-7")
        assert not panel.answers
        assert panel.next is not None
    assert b"a secret" not in path.read_bytes()


def test_async(mem):
    async def run():
        panel = await AsyncSigmaMem(mem).ask(QUESTION)
        while panel.next is not None:
            await panel.add(panel.next, "391")
        return panel

    panel = asyncio.run(run())
    assert panel.decision.answer == "391"
    assert panel.change <= 0.2
    assert len(panel.answers) < len(PEERS)


def test_peers_that_err_together_are_worth_fewer_votes(mem):
    def votes(together):
        rng = np.random.default_rng(0)
        memory = SigmaMem(PEERS, rank=2)
        for _ in range(300):
            luck = rng.random(4)
            right = (luck[:1].repeat(4) if together else luck) < 0.6
            answers = {p: "r" if ok else "w" for p, ok in zip(PEERS, right, strict=True)}
            d = memory.vote(None, answers, phi=[1.0, 0.0])
            memory.feedback(d, {p: bool(ok) for p, ok in zip(PEERS, right, strict=True)})
        return memory.trust().votes

    assert votes(together=True) < 1.5 < votes(together=False)
    assert 1.0 <= mem.trust().votes <= len(PEERS)
    assert mem.trust(QUESTION).votes is None
