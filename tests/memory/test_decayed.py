import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sigma_mem.memory import DecayedSum
from sigma_mem.memory.decayed import added

rates = st.floats(1e-6, 5.0)


def decayed(rate, origin=0.0, size=1):
    made = DecayedSum(rate, {"x": np.zeros(size)})
    made.origin = origin
    return made


@given(rate=rates, tick=st.floats(0, 500), wait=st.floats(0, 500))
def test_weight_times_factor_is_gamma_to_the_age(rate, tick, wait):
    it = decayed(rate)
    it.advance(tick + wait)
    product = it.weight(tick) * it.factor(tick + wait)
    assert math.isclose(product, math.exp(-rate * wait), rel_tol=1e-9, abs_tol=1e-250)


@given(rate=rates, origin=st.floats(-1e9, 1e9), halvings=st.lists(st.floats(0, 200), min_size=1, max_size=8))
def test_moving_the_anchor_changes_no_bit_of_what_is_read(rate, origin, halvings):
    still, moved = decayed(rate, origin), decayed(rate, origin)
    now = origin
    for it in (still, moved):
        it.add("x", np.array([0.7310585786300049]), origin)
    for step in halvings:
        now += step * math.log(2.0) / rate
        if rate * (now - origin) > 600:  # beyond this the one that never moves leaves the range of floats
            return
        moved.advance(now)
        assert still.value("x", now) == moved.value("x", now)
        assert still.weight(now) * math.ldexp(1.0, -moved.bits) == moved.weight(now)


def test_the_anchor_moves_by_a_power_of_two_and_keeps_the_numbers_in_range():
    it = decayed(0.3)
    for tick in range(1, 3000):
        it.arrays["x"][0] = 1.0
        it.advance(float(tick))
        scale = it.arrays["x"][0]
        assert math.frexp(scale)[0] == 0.5
        assert 2.0**-33 < it.factor(float(tick)) <= 1.0
        assert scale == 1.0 or scale <= 2.0**-32
    assert it.bits == pytest.approx(0.3 * 2999 / math.log(2), abs=33)


def test_without_forgetting_nothing_moves():
    it = decayed(0.0)
    it.add("x", np.ones(1), 5.0)
    it.advance(1e12)
    assert it.weight(1e12) == it.factor(1e12) == it.value("x", 1e12)[0] == 1.0
    assert it.due == math.inf


def test_a_jump_beyond_the_range_of_floats_forgets_all():
    it = decayed(math.log(2.0))
    it.add("x", np.ones(1), 0.0)
    it.advance(5000.0)
    assert it.value("x", 5000.0)[0] == 0.0
    assert it.factor(5000.0) == 1.0
    assert it.weight(10.0) == 0.0


@given(rate=rates, now=st.floats(0, 1e5))
def test_a_snapshot_stands_at_the_same_anchor_and_is_independent(rate, now):
    it = decayed(rate, origin=7.0)
    it.advance(now)
    it.add("x", np.array([3.0]), now)
    packed = {name: array.copy() for name, array in it.pack().items()}
    read_back = decayed(rate)
    read_back.unpack(packed)
    copy = it.take([0], {"x": [0]})
    for other in (read_back, copy):
        assert (other.rate, other.origin, other.bits) == (it.rate, it.origin, it.bits)
        assert other.value("x", now) == it.value("x", now)
    before = copy.bits
    it.advance(now + 1e9)
    assert copy.bits == before
    assert read_back.pack().keys() == packed.keys()
    assert all(np.array_equal(array, packed[name]) for name, array in read_back.pack().items())


def test_take_reorders_the_axes_that_run_over_peers():
    it = DecayedSum(0.1, {"pairs": np.arange(9.0).reshape(3, 3), "counts": np.arange(6.0).reshape(2, 3)})
    out = it.take([2, -1, 0], {"pairs": [0, 1], "counts": [1]})
    assert out.arrays["pairs"].tolist() == [[8.0, 0.0, 6.0], [0.0, 0.0, 0.0], [2.0, 0.0, 0.0]]
    assert out.arrays["counts"].tolist() == [[2.0, 0.0, 0.0], [5.0, 0.0, 3.0]]
    out.arrays["pairs"] += 1.0
    assert it.arrays["pairs"][0, 0] == 0.0


def test_merge_reads_both_at_the_same_time_whatever_their_anchors():
    one, two = decayed(math.log(2.0)), decayed(math.log(2.0))
    one.add("x", np.array([8.0]), 1.0)
    two.advance(40.0)
    two.add("x", np.array([3.0]), 40.0)
    assert one.bits != two.bits
    one.merge(two, 41.0)
    assert one.value("x", 41.0)[0] == pytest.approx(1.5 + 8.0 * 2.0**-40)


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 20))
def test_numbers_are_added_as_numpy_adds_them_to_the_bit(seed, n):
    values = np.random.default_rng(seed).normal(size=n) * 10.0 ** (seed % 7)
    assert added(values.tolist()) == np.add.reduce(values) == values[None].sum(axis=1)[0]
    assert math.isnan(added([*values.tolist(), math.nan]))
