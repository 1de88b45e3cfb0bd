"""Late, partial, repeated, amended and revoked feedback, through the public object."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sigma_mem import Settings, SigmaMem
from sigma_mem.errors import ConflictError, InputError

PEERS = ("ann", "bob", "cat")


def unit(rng: np.random.Generator, rank: int = 6) -> np.ndarray:
    phi = rng.normal(size=rank)
    return phi / np.linalg.norm(phi)


def memory(**options: object) -> SigmaMem:
    return SigmaMem(PEERS, rank=6, **options)  # type: ignore[arg-type]


def same(a: SigmaMem, b: SigmaMem, tolerance: float = 1e-12) -> bool:
    return all(
        np.allclose(x, y, rtol=0, atol=tolerance)
        for x, y in ((a.state.M, b.state.M), (a.state.N, b.state.N), (a.state.G, b.state.G))
    )


def labels_for(rng: np.random.Generator, n: int) -> list[dict[str, float]]:
    out = []
    for _ in range(n):
        some = rng.random(len(PEERS)) < 0.8
        out.append({p: float(rng.uniform(-1, 1)) for p, there in zip(PEERS, some, strict=True) if there})
    return out


@pytest.mark.parametrize("decay", ["event", "time"])
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_late_feedback_equals_feedback_on_time(decay: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    chosen = Settings(gamma=0.8, gamma_g=0.7) if decay == "event" else Settings(decay="time", half_life=3.0)
    phis, labels = [unit(rng) for _ in range(30)], labels_for(rng, 30)
    on_time = memory(settings=chosen, clock=lambda: 0.0)
    late = memory(settings=chosen, clock=lambda: 0.0)
    on_time._clock = late._clock = lambda: float(now)
    ids = []
    for now in range(30):
        d = on_time.route(phi=phis[now])
        if labels[now]:
            on_time.feedback(d.id, labels[now])
        ids.append(late.route(phi=phis[now]).id)
    for i in rng.permutation(30):
        # One peer at a time, in any order: the pieces add up to the whole.
        for peer in rng.permutation(list(labels[i])):
            late.feedback(ids[i], {peer: labels[i][peer]})
    assert same(on_time, late)


def test_missing_is_not_wrong() -> None:
    mem = memory()
    phi = np.eye(6)[0]
    for _ in range(5):
        mem.feedback(mem.route(phi=phi).id, {"ann": True})
    reading = mem.state.read(phi)
    assert reading.effective[0] > 4
    assert reading.effective[1:].tolist() == [0.0, 0.0]
    assert reading.prob[0] > reading.prob[1] == reading.prob[2] > 0.5  # as good as the pool, no better


def test_the_same_feedback_again_changes_nothing() -> None:
    mem = memory()
    d = mem.route(phi=np.eye(6)[0])
    mem.feedback(d.id, {"ann": True, "bob": False}, id="f1")
    before = mem.state.pack()
    before = {key: value.copy() for key, value in before.items()}
    mem.feedback(d.id, {"ann": True, "bob": False}, id="f1")
    mem.feedback(d.id, {"ann": True, "bob": False})
    mem.feedback(d.id, {"ann": True})
    after = mem.state.pack()
    assert all(np.array_equal(before[key], after[key], equal_nan=True) for key in before)


def test_another_body_is_an_error_unless_it_amends() -> None:
    mem, reference = memory(), memory()
    rng = np.random.default_rng(3)
    phis = [unit(rng) for _ in range(8)]
    ids = [mem.route(phi=phi).id for phi in phis]
    for id, phi in zip(ids, phis, strict=True):
        mem.feedback(id, {"ann": True, "bob": False}, id=f"f-{id}")
        d = reference.route(phi=phi)
        if id != ids[2]:
            reference.feedback(d.id, {"ann": True, "bob": False})
        else:
            amended = d.id
    before = mem.state.M.copy()
    with pytest.raises(ConflictError, match="amend=True"):
        mem.feedback(ids[2], {"ann": False, "bob": False}, id=f"f-{ids[2]}")
    with pytest.raises(ConflictError, match="amend=True"):
        mem.feedback(ids[2], {"ann": False})
    assert np.array_equal(before, mem.state.M)
    mem.feedback(ids[2], {"ann": -0.5, "bob": False}, id=f"f-{ids[2]}", amend=True)
    mem.feedback(ids[2], {"ann": -0.5, "bob": False}, id=f"f-{ids[2]}", amend=True)  # again: nothing
    mem.feedback(ids[2], {"ann": -0.25, "bob": False}, id=f"f-{ids[2]}", amend=True)
    reference.feedback(amended, {"ann": -0.25, "bob": False})
    for i, phi in enumerate(phis):  # the reference wrote the others on time as well
        assert np.allclose(mem.state.read(phi).score, reference.state.read(phi).score, atol=1e-12), i
    assert same(mem, reference)


def test_revoking_a_source_is_as_if_it_had_never_spoken() -> None:
    mem, reference = memory(), memory()
    rng = np.random.default_rng(5)
    for i in range(200):  # beyond one window of the competence memory
        phi = unit(rng)
        a, b = mem.route(phi=phi).id, reference.route(phi=phi).id
        mem.feedback(a, {"ann": True, "bob": -0.5}, source="tests")
        reference.feedback(b, {"ann": True, "bob": -0.5}, source="tests")
        if i % 3 == 0:
            mem.feedback(a, {"ann": False, "cat": True}, source="liar")
    assert not same(mem, reference)
    assert mem.revoke("liar") == 67
    assert same(mem, reference)
    assert mem.revoke("liar") == 67
    with pytest.raises(InputError, match="revoked"):
        mem.feedback(a, {"cat": True}, source="liar")


def test_two_sources_count_as_one_label_their_mean() -> None:
    mem, reference = memory(), memory()
    phi = np.eye(6)[1]
    d = mem.route(phi=phi)
    mem.feedback(d.id, {"ann": True, "bob": True}, source="one")
    mem.feedback(d.id, {"ann": False, "bob": True}, source="two")
    reference.feedback(reference.route(phi=phi).id, {"ann": 0.0, "bob": True})
    assert same(mem, reference)


def test_decay_by_labelled_event_does_not_age_on_unlabelled_ones() -> None:
    mem = memory(settings=Settings(gamma=0.5, eta=1.0, decay="labelled"))
    phi = np.eye(6)[0]
    first = mem.route(phi=phi)
    mem.feedback(first.id, {"ann": True})
    for _ in range(10):
        mem.route(phi=phi)
    assert mem.state.read(phi).score[0] == pytest.approx(1.0)
    mem.feedback(mem.route(phi=phi).id, {"ann": True})
    assert mem.state.read(phi).score[0] == pytest.approx(1.5)
    mem.feedback(first.id, {"ann": False}, amend=True)  # keeps its place
    assert mem.state.read(phi).score[0] == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ({"eve": True}, "'eve' is not in this memory"),
        ({"ann": 1.5}, r"in \[-1, 1\]"),
        ({"ann": float("nan")}, r"in \[-1, 1\]"),
        ({"ann": "yes"}, "bool or a number"),
        ({}, "empty"),
    ],
)
def test_bad_labels_are_refused_and_nothing_changes(labels: dict[str, object], message: str) -> None:
    mem = memory()
    d = mem.route(phi=np.eye(6)[0])
    mem.feedback(d.id, {"bob": True})
    before = mem.state.M
    with pytest.raises(InputError, match=message):
        mem.feedback(d.id, labels)
    assert np.array_equal(before, mem.state.M)


@pytest.mark.parametrize(
    ("phi", "message"),
    [
        (np.full(6, np.nan), "NaN"),
        (np.ones(6), "unit vector"),
        (np.eye(5)[0], "rank of this memory"),
    ],
)
def test_a_bad_phi_is_refused_and_nothing_changes(phi: np.ndarray, message: str) -> None:
    mem = memory()
    with pytest.raises(InputError, match=message):
        mem.route(phi=phi)
    assert mem.events == 0


def test_a_peer_that_left_still_centres_the_relation_of_its_events() -> None:
    mem, reference = memory(), memory()
    rng = np.random.default_rng(8)
    phi = unit(rng)
    a, b = mem.route(phi=phi).id, reference.route(phi=phi).id
    mem.feedback(a, {"ann": True, "bob": True, "cat": False})
    mem.remove_peer("cat")
    mem.feedback(a, {"ann": False}, amend=True)
    reference.feedback(b, {"ann": False, "bob": True, "cat": False})
    reference.remove_peer("cat")
    assert same(mem, reference)
    with pytest.raises(InputError, match="removed before"):
        mem.add_peer("cat")
    mem.add_peer("dan")
    assert mem.peers == ("ann", "bob", "dan")
    assert mem.state.overall()[1][2] == 0.0
