"""Peers change: updated under their name, renamed, replaced, removed and back; pools are synced."""

from __future__ import annotations

import numpy as np
import pytest

from learned import assert_alike
from sigma_mem import SigmaMem
from sigma_mem.admin import refold
from sigma_mem.cli.app import run
from sigma_mem.errors import InputError

PEERS = ("ann", "bob", "cat")
PHI = np.array([1.0, 0.0])


def memory(path=None, **options: object) -> SigmaMem:
    return SigmaMem(PEERS, path, rank=2, **options)


def teach(mem: SigmaMem, events: int = 20, phi: np.ndarray = PHI, **said: bool) -> list[str]:
    ids = []
    for _ in range(events):
        d = mem.vote(None, {peer: "1" if peer in said else "2" for peer in mem.peers}, phi=phi)
        mem.feedback(d.id, said)
        ids.append(d.id)
    return ids


def test_a_reset_peer_keeps_a_share_of_its_record() -> None:
    mem = memory()
    teach(mem, ann=True, bob=False)
    M, N, G, K = mem.state.M, mem.state.N, mem.state.G, mem.state.alternatives(PHI)
    mem.rename_peer("ann", keep=0.25)
    np.testing.assert_allclose(mem.state.M, M * np.array([0.25, 1, 1])[:, None, None])
    np.testing.assert_allclose(mem.state.N, N * np.array([0.25, 1, 1])[:, None, None])
    assert mem.state.G[0, 1] == pytest.approx(0.25 * G[0, 1])
    assert mem.state.G[1, 2] == G[1, 2]
    assert mem.state.alternatives(PHI) == K
    assert_alike(mem, mem.journal.replayed())


def test_a_reset_peer_is_learned_anew_quickly() -> None:
    mem = memory()
    teach(mem, 200, ann=True, bob=False)
    before = mem.trust(phi=PHI)["ann"]
    mem.rename_peer("ann", keep=0.2)
    after = mem.trust(phi=PHI)["ann"]
    assert after.effective == pytest.approx(0.2 * before.effective)
    assert after.interval[0] < before.interval[0]
    assert_alike(mem, mem.journal.replayed())


@pytest.mark.parametrize("change", ["reset_peer", "replace_peer"])
def test_labels_of_events_before_count_with_the_share_whenever_they_come(change: str) -> None:
    late, on_time = memory(), memory()
    ids = teach(late, 3, ann=True), teach(on_time, 3, ann=True)
    on_time.feedback(ids[1][0], {"ann": False, "bob": False}, amend=True)
    for mem in (late, on_time):
        if change == "reset_peer":
            mem.rename_peer("ann", keep=0.5)
        else:
            mem.rename_peer("ann", "eve", keep=0.5)
    late.feedback(ids[0][0], {"ann": False, "bob": False}, amend=True)
    for name in ("M", "N", "G"):
        np.testing.assert_allclose(getattr(late.state, name), getattr(on_time.state, name), atol=1e-15)
    assert late.state.alternatives(PHI) == pytest.approx(on_time.state.alternatives(PHI), rel=1e-12)
    probs = [mem.trust(phi=PHI)["bob"].prob for mem in (late, on_time)]
    assert probs[0] == pytest.approx(probs[1], abs=1e-4)  # the mixture of horizons lags by a few labels
    for mem in (late, on_time):
        assert_alike(mem, mem.journal.replayed())


def test_a_renamed_peer_keeps_its_record_and_answers_to_both_names_in_feedback() -> None:
    mem, other = memory(), memory()
    ids = teach(mem, ann=True, bob=False), teach(other, ann=True, bob=False)
    mem.rename_peer("bob", "rob")
    assert mem.peers == ("ann", "rob", "cat")
    for name in ("M", "N", "G"):
        assert getattr(mem.state, name).tobytes() == getattr(other.state, name).tobytes()
    mem.feedback(ids[0][0], {"bob": True, "cat": True}, amend=True)
    mem.feedback(ids[0][1], {"rob": True}, amend=True)
    other.feedback(ids[1][0], {"bob": True, "cat": True}, amend=True)
    other.feedback(ids[1][1], {"bob": True}, amend=True)
    np.testing.assert_allclose(mem.state.M, other.state.M, atol=1e-15)
    assert mem.decision(ids[0][0]).labels == {"ann": 1.0, "bob": 1.0, "cat": 1.0}  # as they were called
    assert len(mem.history("rob")) == 20
    with pytest.raises(InputError, match="two of its names"):
        mem.feedback(ids[0][2], {"rob": True, "bob": True})
    with pytest.raises(InputError, match="is now 'rob'"):
        mem.add_peer("bob")
    with pytest.raises(InputError, match="called 'rob' now"):
        mem.rename_peer("bob", keep=0.2)
    mem.rename_peer("rob", "bob")  # and back
    assert mem.peers == PEERS
    assert_alike(mem, mem.journal.replayed())


def test_a_replaced_peer_leaves_a_share_to_its_successor() -> None:
    mem = memory()
    teach(mem, ann=True, bob=False)
    N = mem.state.N
    mem.rename_peer("bob", "bob-2", keep=0.1)
    assert mem.peers == ("ann", "bob-2", "cat")
    np.testing.assert_allclose(mem.state.N[1], 0.1 * N[1])
    with pytest.raises(InputError, match="was in this memory before"):
        mem.rename_peer("cat", "bob")
    assert_alike(mem, mem.journal.replayed())


def test_an_explanation_adds_up_after_a_reset_and_a_renaming() -> None:
    mem = memory()
    teach(mem, 4, ann=True, bob=False)
    mem.rename_peer("bob", keep=0.5)
    mem.rename_peer("bob", "rob")
    teach(mem, 2, ann=True, rob=False)
    made = mem.route(phi=PHI)
    mem.rename_peer("rob", "robert")
    found = mem.explain(made, peer="rob", top=9)
    assert len(found.contributions) == 6
    assert sum(term.share for term in found.contributions) == pytest.approx(found.score, rel=1e-12)
    assert sorted(term.weight for term in found.contributions) == [0.5] * 4 + [1.0] * 2


def test_a_removed_peer_returns_by_an_explicit_word_with_nothing_known() -> None:
    mem, never = memory(), memory()
    ids = teach(mem, ann=True, bob=False)
    teach(never, ann=True, bob=False)
    mem.remove_peer("bob")
    with pytest.raises(InputError, match="returning=True"):
        mem.add_peer("bob")
    mem.add_peer("bob", returning=True)
    assert mem.peers == ("ann", "cat", "bob")
    assert not mem.state.N[2].any()
    mem.feedback(ids[0], {"bob": True}, amend=True)  # what it did before counts in K and in means only
    assert not mem.state.N[2].any()
    teach(mem, 3, bob=True)
    assert mem.state.N[2].any()
    with pytest.raises(InputError, match="never removed"):
        mem.add_peer("dan", returning=True)
    mem.remove_peer("bob")
    mem.add_peer("bob", returning=True)
    assert_alike(mem, mem.journal.replayed())


@pytest.mark.parametrize("keep", [-0.1, 1.1, float("nan"), True, "half"])
def test_a_share_is_checked(keep: object) -> None:
    with pytest.raises(InputError, match="from 0"):
        memory().rename_peer("ann", keep=keep)  # type: ignore[arg-type]


def test_changes_survive_reopening_from_a_snapshot_and_from_the_ledger(tmp_path) -> None:
    path = tmp_path / "memory.db"
    with memory(path) as mem:
        ids = teach(mem, ann=True, bob=False)
        mem.rename_peer("ann", keep=0.3)
        mem.rename_peer("bob", "rob")
        mem.rename_peer("cat", "kit", keep=0.5)
        mem.feedback(ids[3], {"bob": True, "cat": True}, amend=True)
        expected = mem.state.M
    with SigmaMem(path=path) as mem:
        np.testing.assert_array_equal(mem.state.M, expected)
        assert_alike(mem, mem.journal.replayed())
        mem.feedback(ids[4], {"bob": True, "cat": True}, amend=True)
        assert_alike(mem, mem.journal.replayed())
        with SigmaMem(path=path, readonly=True) as reader:
            assert_alike(reader, mem)


def test_peers_may_be_listed_in_any_order_and_synced(tmp_path) -> None:
    path = tmp_path / "memory.db"
    with memory(path) as mem:
        teach(mem, ann=True, bob=False)
    with SigmaMem(["cat", "ann", "bob"], path) as mem:
        assert mem.peers == PEERS
    with pytest.raises(InputError, match=r"sync=True to add \['dan'\] and remove \['bob'\]"):
        SigmaMem(["cat", "ann", "dan"], path)
    with SigmaMem(["cat", "ann", "dan"], path, sync=True) as mem:
        assert mem.peers == ("ann", "cat", "dan")
    with SigmaMem(["bob", "ann"], path, sync=True) as mem:
        assert mem.peers == ("ann", "bob")
        assert mem.state.N[0].any()
        assert not mem.state.N[1].any()
        assert_alike(mem, mem.journal.replayed())
    with pytest.raises(InputError, match="a list of names"):
        SigmaMem("abc", path)


def test_the_commands(tmp_path, capsys) -> None:
    path = str(tmp_path / "memory.db")
    with memory(path) as mem:
        teach(mem, ann=True, bob=False)
    for words in (
        ["rename", "ann", "--keep", "0.5"],
        ["rename", "bob", "rob"],
        ["rename", "cat", "kit", "--keep", "0"],
        ["remove", "kit"],
        ["add", "dan"],
        ["add", "kit", "--returning"],
    ):
        assert run(["peers", *words, "-m", path]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "peers: ann, rob, dan, kit"
    assert run(["peers", "add", "kit", "-m", path]) == 2
    assert run(["peers", "remove", "dan", "-m", path]) == 0
    assert run(["peers", "add", "dan", "-m", path]) == 2
    assert "--returning" in capsys.readouterr().err


def test_a_reset_counts_in_topics_too() -> None:
    mem = memory()
    for _ in range(10):
        d = mem.route(phi=PHI, topic="law")
        mem.feedback(d.id, {"ann": True, "bob": False})
    before = mem.trust(topic="law")["ann"]
    mem.rename_peer("ann", keep=0.5)
    after = mem.trust(topic="law")["ann"]  # weights of the shares of topics have changed as well
    assert after.effective == pytest.approx(0.5 * before.effective, rel=0.1)
    mem.feedback(d.id, {"ann": False}, amend=True)
    assert_alike(mem, mem.journal.replayed())
    assert refold(mem).differences == ()
    assert list(mem.trust().topics) == ["law"]


def test_a_renamed_peer_is_found_under_any_of_its_names() -> None:
    mem = memory()
    ids = teach(mem, 5, ann=True, bob=False)
    mem.rename_peer("ann", "eve")
    later = mem.vote(None, {"eve": "1", "bob": "2"}, phi=PHI).id
    for name in ("ann", "eve"):
        assert [d.id for d in mem.decisions(peer=name)] == [later, *reversed(ids)]
        assert mem.history(name).peer == "eve"
        assert len(mem.history(name)) == 6
        assert mem.explain(ids[3], peer=name).peer == "ann"  # a decision names peers as they were then
        assert mem.explain(later, peer=name).peer == "eve"


def test_who_answered_is_charged_under_the_name_it_has_now() -> None:
    mem, plain = memory(), memory()
    for each in (mem, plain):
        each.set_price("ann", per_call=2.0)
    made = [each.route(phi=PHI, among=["ann"]) for each in (mem, plain)]
    served = mem.served(made[0], "ann")
    mem.rename_peer("ann", "eve")
    assert mem.decision(served.id) == served
    assert served.propensity == 1.0
    assert "instead" not in str(mem.explain(served.id))
    for name in ("ann", "eve"):  # the second one changes nothing
        assert mem.served(made[0], name, cost=5.0).served == "ann"
    plain.served(made[1], "ann", cost=5.0)
    assert dict(mem.spent().by_peer) == {"eve": 5.0}
    assert mem.spent().total == plain.spent().total
    assert_alike(mem, mem.journal.replayed())


def test_a_panel_goes_on_after_a_renaming() -> None:
    mem = memory()
    panel = mem.ask("What is 2 + 2?", phi=PHI, ref="t")
    panel.add("ann", "4")
    mem.rename_peer("ann", "eve")
    again = mem.ask("What is 2 + 2?", ref="t")
    assert list(again.answers) == ["eve"]
    assert again.next == panel.next
    assert again.decision.peer == "eve"
