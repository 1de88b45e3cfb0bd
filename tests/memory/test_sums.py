"""The container: whatever its sums are about, they decay, follow peers, merge and survive a snapshot."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sigma_mem.memory import Sum, Sums
from sigma_mem.memory.sums import PEERS

P = 3
FAST, SLOW = -math.log(0.7), -math.log(0.999)
DECLARED = {
    "of peers": Sum((2, PEERS), (FAST, SLOW)),
    "vectors": Sum((PEERS, 2), SLOW),
    "pairs": Sum((PEERS, PEERS), FAST),
    "of the pool": Sum((2,), SLOW),
    "forever": Sum((PEERS,), 0.0),
    "kept": Sum((2,), None),
}
seeds = st.integers(0, 2**32 - 1)


def drawn(rng, n=1):
    """What events contribute to every sum; peers that are not seen contribute nothing."""
    seen = (rng.random((n, P)) < 0.6).astype(float)
    rows = {
        name: rng.normal(size=(n, *(P if x == PEERS else x for x in s.shape))) for name, s in DECLARED.items()
    }
    rows["of peers"] *= seen[:, None]
    rows["vectors"] *= seen[:, :, None]
    rows["forever"] *= seen
    return rows, seen


def add(sums, rows, seen, ticks):
    weights = sums.weights(np.asarray(ticks, dtype=float), seen.any(axis=0))
    for name, declared in DECLARED.items():
        if declared.rate is not None:
            sums.add(name, rows[name], weights)


def naive(rows, ticks, now, name):
    rate = DECLARED[name].rate
    rates = np.array(rate).reshape(-1, 1) if isinstance(rate, tuple) else rate
    return sum(np.exp(-rates * (now - tick)) * row for row, tick in zip(rows[name], ticks, strict=True))


def as_of(sums, name, now):
    return sums[name] * sums.factors(name, now)


def assert_sums(sums, rows, ticks, now):
    for name, declared in DECLARED.items():
        if declared.rate is not None:
            expected = naive(rows, ticks, now, name)
            np.testing.assert_allclose(as_of(sums, name, now), expected, atol=1e-9, err_msg=name)


@given(seed=seeds, spread=st.sampled_from([1.0, 50.0, 3000.0]), size=st.sampled_from([1, 7, 40]))
def test_sums_are_those_of_the_definition_in_any_order_and_in_batches_of_any_size(seed, spread, size):
    rng = np.random.default_rng(seed)
    (rows, seen), ticks = drawn(rng, 40), rng.uniform(0.0, spread, 40)
    sums, order = Sums(P, DECLARED), rng.permutation(40)
    for start in range(0, 40, size):
        some = order[start : start + size]
        add(sums, {name: x[some] for name, x in rows.items()}, seen[some], ticks[some])
    assert_sums(sums, rows, ticks, spread)


def test_ages_may_count_from_1970():
    sums, rng = Sums(P, DECLARED), np.random.default_rng(0)
    rows, seen = drawn(rng, 5)
    ticks = 1.7e9 + np.arange(5.0)
    add(sums, rows, seen, ticks)
    for name in ("of peers", "pairs"):
        np.testing.assert_allclose(
            as_of(sums, name, ticks[-1]), naive(rows, ticks, ticks[-1], name), rtol=1e-4
        )


def test_what_is_known_of_a_peer_does_not_vanish_while_only_others_are_seen():
    """The ratio of two of its sums stays what it was, however long the pause."""
    sums = Sums(P, {"x": Sum((2, PEERS), FAST)})
    both, others = np.array([[[3.0, 0.0, 0.0], [4.0, 0.0, 0.0]]]), np.array([[[0.0, 1.0, 1.0]] * 2])
    sums.add("x", both, sums.weights(np.array([1.0]), both[0, 0]))
    for tick in range(100, 100_000, 50):
        sums.add("x", others, sums.weights(np.array([float(tick)]), others[0, 0]))
    assert sums["x"][0, 0] / sums["x"][1, 0] == 0.75
    assert np.isfinite(sums["x"]).all()
    assert as_of(sums, "x", 1e5)[0, 0] == 0.0


def test_peers_come_go_and_change_places():
    sums, (rows, seen) = Sums(P, DECLARED), drawn(np.random.default_rng(1))
    add(sums, rows, seen, [5.0])
    before = {name: array.copy() for name, array in sums.items()}
    taken = sums.take([2, -1, 0, 1])
    assert taken.n_peers == 4
    for name, axes in (("of peers", (1,)), ("vectors", (0,)), ("pairs", (0, 1)), ("forever", (0,))):
        expected = before[name]
        for axis in axes:
            expected = np.insert(np.take(expected, [2, 0, 1], axis), 1, 0.0, axis)
        np.testing.assert_array_equal(taken[name], expected)
    taken["pairs"][...] = 9.0
    np.testing.assert_array_equal(sums["pairs"], before["pairs"])


def test_every_peer_keeps_a_share_and_two_have_the_product_in_common():
    sums, (rows, seen) = Sums(P, DECLARED), drawn(np.random.default_rng(2))
    add(sums, rows, seen, [5.0])
    before, share = {name: array.copy() for name, array in sums.items()}, np.array([1.0, 0.5, 0.0])
    sums.scale(share)
    np.testing.assert_allclose(sums["of peers"], before["of peers"] * share)
    np.testing.assert_allclose(sums["vectors"], before["vectors"] * share[:, None])
    np.testing.assert_allclose(sums["pairs"], before["pairs"] * np.outer(share, share))
    np.testing.assert_array_equal(sums["of the pool"], before["of the pool"])


@given(seed=seeds, apart=st.sampled_from([0.0, 30.0, 5000.0]))
def test_two_merge_into_what_one_would_have_seen(seed, apart):
    rng = np.random.default_rng(seed)
    one, two = Sums(P, DECLARED), Sums(P, DECLARED)
    (first, seen), (second, also) = drawn(rng, 5), drawn(rng, 7)
    ticks, later = rng.uniform(0.0, 50.0, 5), apart + rng.uniform(0.0, 50.0, 7)
    add(one, first, seen, ticks)
    add(two, second, also, later)
    left = {name: array.copy() for name, array in two.items()}
    one.merge(two)
    both = {name: np.concatenate((first[name], second[name])) for name in first}
    assert_sums(one, both, np.concatenate((ticks, later)), apart + 50.0)
    assert all(np.array_equal(two[name], left[name]) for name in left)


def test_a_snapshot_holds_every_bit_and_is_independent():
    sums, (rows, seen) = Sums(P, DECLARED), drawn(np.random.default_rng(3))
    add(sums, rows, seen, [7.0])
    packed = {name: array.copy() for name, array in sums.pack().items()}
    again = Sums(P, DECLARED)
    again.unpack(packed)
    add(sums, rows, seen, [900.0])
    add(again, rows, seen, [900.0])
    for name in DECLARED:
        assert again[name].tobytes() == sums[name].tobytes()
    assert packed["anchors"].tobytes() == Sums(P, DECLARED).pack()["anchors"].tobytes()  # 7 is near enough


def test_a_sum_grows_by_rows():
    sums = Sums(2, {"rows": Sum((0, PEERS), SLOW)})
    sums.grow("rows", 3)[2] += 1.0
    assert sums.grow("rows", 2).shape[0] >= 3
    assert sums["rows"][2].tolist() == [1.0, 1.0]
    assert sums.take([1, -1])["rows"][2].tolist() == [1.0, 0.0]


def test_without_decay_nothing_fades():
    sums = Sums(1, {"x": Sum((PEERS,), 0.0)})
    sums.add("x", np.ones((1, 1)), sums.weights(np.array([5.0]), np.ones(1)))
    assert as_of(sums, "x", 1e12).tolist() == [1.0]
    assert sums.factor(0.0, 1e12).tolist() == pytest.approx([1.0, 1.0])


def test_a_peer_of_which_nothing_is_seen_costs_nothing_however_far_behind_it_is(monkeypatch):
    sums, moved, move = Sums(P, DECLARED), [], Sums._move
    monkeypatch.setattr(Sums, "_move", lambda self, by: (moved.append(by), move(self, by)))
    for tick in np.arange(2000.0, 2100.0):
        for _ in range(3):
            sums.add("of the pool", np.ones((1, 2)), sums.weights(np.array([tick])))
    assert len(moved) == 1
    sums.add("forever", np.ones((1, P)), sums.weights(np.array([2099.0]), np.array([1.0, 0.0, 0.0])))
    assert len(moved) == 2
    np.testing.assert_array_equal(sums["forever"], [1.0, 1.0, 1.0])
