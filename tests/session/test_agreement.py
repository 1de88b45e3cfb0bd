"""Agreement is written at decisions, and horizons are scored by the claims that a decision's line keeps."""

import numpy as np
import pytest

from sigma_mem import Settings, SigmaMem

PEERS = ["ann", "bob", "cat"]
PHI = np.array([0.6, 0.8])


def memory(**options):
    return SigmaMem(PEERS, rank=2, **options)


def test_who_agrees_is_preferred_before_any_label():
    mem = memory()
    for i in range(30):
        mem.decide("?", {"ann": f"{i}", "bob": "7", "cat": "7"}, phi=PHI)
    assert mem.route(phi=PHI).peer == "bob"
    assert mem.state.overall()[1].tolist() == [0.0, 0.0, 0.0]  # no label


def test_agreement_can_be_turned_off():
    mem = memory(settings=Settings(agreement=False))
    for _ in range(5):
        mem.decide("?", {"ann": "1", "bob": "7", "cat": "7"}, phi=PHI)
    assert set(mem.route(phi=PHI).probs.values()) == {0.5}


@pytest.mark.parametrize("read", ["vote", "decide"])
def test_the_last_answers_before_the_first_label_count(read):
    corrected, plain = memory(), memory()
    first = {"ann": "1", "bob": "1", "cat": "2"}
    last = {"ann": "1", "bob": "2", "cat": "2"}
    d = getattr(corrected, read)("?", first, phi=PHI)
    getattr(corrected, read)("?", last, phi=PHI, after=d.id)
    corrected.feedback(d.id, {"cat": True})
    getattr(corrected, read)("?", first, phi=PHI, after=d.id)
    d = getattr(plain, read)("?", last, phi=PHI)
    plain.feedback(d.id, {"cat": True})
    for mem in (corrected, plain):
        assert mem.state.settings.agreement
    for one, two in zip(*(mem.state.sums["agreement"] for mem in (corrected, plain)), strict=True):
        np.testing.assert_allclose(one, two, atol=1e-15)
    np.testing.assert_allclose(corrected.state.read(PHI).prob, plain.state.read(PHI).prob, atol=1e-3)
    texts, of_last = (mem.state.sums["agreed_features"] for mem in (corrected, plain))
    assert of_last.any()
    np.testing.assert_allclose(texts, of_last, atol=1e-15)


def test_texts_that_others_agree_with_break_ties_before_any_label():
    mem = memory()
    wordy = "I am not quite sure, but perhaps, after some thought, it could be"
    for i in range(60):  # whoever hedges is alone with its answer
        says = dict.fromkeys(PEERS, f"{i + 1}") | {PEERS[i % 3]: f"{wordy} {i}"}
        mem.vote("?", says, canon="number", phi=PHI)
    for hedging, plain in (("ann", "bob"), ("bob", "ann")):
        assert mem.vote("?", {hedging: f"{wordy} 8", plain: "9"}, canon="number", phi=PHI).peer == plain


@pytest.mark.parametrize("answers", [{"ann": "1"}, {"ann": "1", "bob": None}])
def test_a_single_readable_answer_agrees_with_nobody(answers):
    mem = memory()
    mem.vote("?", answers, phi=PHI)
    assert not mem.state.sums["agreement"][1].any()


def test_a_revoked_source_leaves_the_horizons_as_if_it_had_not_spoken():
    """Recorded claims kept: both memories hear nothing else, so that their claims are the same."""
    with_it, without = memory(), memory()
    for i in range(40):
        answers = {"ann": "1", "bob": "1", "cat": str(i % 2)}
        ids = [mem.decide("?", answers, phi=PHI).id for mem in (with_it, without)]
    with_it.feedback(ids[0], {"ann": True, "bob": False}, source="liar")
    with_it.revoke("liar")
    one, two = with_it.state, without.state
    for name in ("labels", "claims", "directions"):
        np.testing.assert_allclose(one.sums[name], two.sums[name], atol=1e-12, err_msg=name)
    np.testing.assert_allclose(one.horizon_weights(), two.horizon_weights(), atol=1e-12)
    np.testing.assert_allclose(one.read(PHI).prob, two.read(PHI).prob, atol=1e-12)


def test_answers_that_are_corrected_after_a_peer_has_left_leave_nothing_of_those_before():
    """The answer of the one who left was among those that the others' agreement was centred by."""
    mem = memory()
    d = mem.vote("?", {"ann": "1", "bob": "1", "cat": "2"}, phi=PHI)
    mem.remove_peer("bob")
    mem.vote("?", {"ann": "1", "cat": "1"}, phi=PHI, after=d.id)
    only = memory()
    only.remove_peer("bob")
    only.vote("?", {"ann": "1", "cat": "1"}, phi=PHI)
    for one, two in zip(*(m.state.sums["agreement"] for m in (mem, only)), strict=True):
        np.testing.assert_allclose(one, two, atol=1e-12)
