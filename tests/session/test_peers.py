"""Peers change: updated under their name, renamed, replaced, removed and back; pools are synced."""

from __future__ import annotations

import numpy as np
import pytest

from learned import assert_alike
from sigma_mem import SigmaMem
from sigma_mem.admin import merge, refold
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
        ["add", "kit", "--returning", "--like", "ann", "--worth", "5"],
    ):
        assert run(["peers", *words, "-m", path]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "peers: ann, rob, dan, kit"
    with SigmaMem(path=path) as mem:
        assert mem.state.labels_of("kit") == pytest.approx(5.0)
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


def test_a_peer_starts_like_another_for_so_many_labels() -> None:
    mem = memory()
    teach(mem, 40, ann=True, bob=False)
    M, N = mem.state.M[0], mem.state.N[0]
    mem.add_peer("ann@low", like="ann", worth=10)
    np.testing.assert_allclose(mem.state.M[3], M / 4)
    np.testing.assert_allclose(mem.state.N[3], N / 4)
    assert mem.state.labels_of("ann@low") == pytest.approx(10.0)
    assert not mem.state.G[3, :3].any()  # who errs with whom is not known
    trust = mem.trust(phi=PHI)
    assert trust["ann"].prob > trust["ann@low"].prob > 0.75 > trust["cat"].prob
    assert trust["ann@low"].labels == 0
    assert "like which it started" in str(mem.explain(mem.route(None, phi=PHI).id, peer="ann@low"))
    assert_alike(mem, mem.journal.replayed())


def test_a_record_of_fewer_labels_than_it_may_be_worth_is_taken_as_it_is() -> None:
    mem = memory()
    teach(mem, 4, ann=True)
    mem.add_peer("eve", like="ann", worth=100)
    assert mem.state.labels_of("eve") == pytest.approx(4.0)
    mem.add_peer("new", like="bob")  # of whom nothing is known
    assert mem.state.labels_of("new") == 0.0


def test_the_record_that_a_peer_started_from_fades_with_its_own_labels() -> None:
    fresh, like = memory(), memory()
    for mem in (fresh, like):
        teach(mem, 40, ann=True, bob=False)
    fresh.add_peer("eve")
    like.add_peer("eve", like="ann", worth=10)
    apart = []
    for _ in range(4):
        apart.append(abs(like.trust(phi=PHI)["eve"].prob - fresh.trust(phi=PHI)["eve"].prob))
        for mem in (fresh, like):
            teach(mem, 30, eve=False)
    assert apart[0] > 0.2
    assert apart[3] < 0.05 < 0.6 * apart[0]
    assert_alike(like, like.journal.replayed())


def test_labels_of_earlier_events_count_for_both_whenever_they_come() -> None:
    late, on_time = memory(), memory()
    ids = teach(late, 8, ann=True), teach(on_time, 8, ann=True)
    on_time.feedback(ids[1][0], {"ann": False}, amend=True)
    for mem in (late, on_time):
        mem.add_peer("eve", like="ann", worth=4)
        mem.rename_peer("ann", "ann-2", keep=0.5)
        mem.add_peer("eve@low", like="eve", worth=1)
        mem.rename_peer("eve", keep=0.5)
    late.feedback(ids[0][0], {"ann": False}, amend=True)
    for name in ("M", "N", "G"):
        np.testing.assert_allclose(getattr(late.state, name), getattr(on_time.state, name), atol=1e-15)
    ratios = late.state.N[[0, 3, 4], 0, 0] / late.state.N[0, 0, 0]
    np.testing.assert_allclose(ratios, [1.0, 0.5, 0.25])
    assert_alike(late, late.journal.replayed())


def test_revoking_a_source_takes_its_labels_from_a_peer_that_started_with_them() -> None:
    mem = memory()
    ids = teach(mem, 5, ann=True)
    mem.feedback(ids[0], {"ann": False}, source="liar", amend=True)
    d = mem.route(None, phi=PHI)
    mem.feedback(d.id, {"ann": False}, source="liar")
    mem.add_peer("eve", like="ann", worth=3)
    before, share = mem.state.N[3, 0, 0], mem.state.N[3, 0, 0] / mem.state.N[0, 0, 0]
    mem.revoke("liar")
    assert mem.state.N[3, 0, 0] < before
    np.testing.assert_allclose(mem.state.M[3], share * mem.state.M[0], atol=1e-15)
    assert_alike(mem, mem.journal.replayed())


@pytest.mark.parametrize(
    "given", [{"like": "dan"}, {"like": "ann", "worth": 0.0}, {"like": "ann", "worth": True}]
)
def test_whom_a_peer_is_like_is_checked(given: dict[str, object]) -> None:
    with pytest.raises(InputError, match="expected"):
        memory().add_peer("eve", **given)


def test_a_merged_memory_keeps_what_a_peer_started_with() -> None:
    one, two = memory(), memory()
    teach(one, 10, ann=True)
    one.add_peer("eve", like="ann", worth=5)
    both = merge(one, two)
    np.testing.assert_allclose(both.state.N[both.peers.index("eve")], one.state.N[3])
    assert_alike(both, both.journal.replayed())
