import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sigma_mem.memory import Discount

rates = st.floats(1e-6, 5.0)


@given(rate=rates, tick=st.floats(0, 500), wait=st.floats(0, 500))
def test_weight_times_factor_is_gamma_to_the_age(rate, tick, wait):
    discount = Discount(rate)
    discount.rebase(tick + wait)
    product = discount.weight(tick) * discount.factor(tick + wait)
    assert math.isclose(product, math.exp(-rate * wait), rel_tol=1e-9, abs_tol=1e-250)


@given(rate=rates, origin=st.floats(-1e9, 1e9), halvings=st.lists(st.floats(0, 200), min_size=1, max_size=8))
def test_a_rebase_changes_no_bit_of_what_is_read(rate, origin, halvings):
    still, moved = Discount(rate, origin), Discount(rate, origin)
    kept, now = 0.7310585786300049, origin
    for step in halvings:
        now += step * math.log(2.0) / rate
        if rate * (now - origin) > 600:  # beyond this the one that never moves leaves the range of floats
            return
        moved.rebase(now)
        scale = math.ldexp(1.0, -moved.bits)
        assert kept * still.factor(now) == (kept * scale) * moved.factor(now)
        assert still.weight(now) * scale == moved.weight(now)


def test_a_rebase_is_a_power_of_two_and_keeps_the_numbers_in_range():
    discount = Discount(rate=0.3)
    for tick in range(1, 3000):
        scale = discount.rebase(float(tick))
        assert math.frexp(scale)[0] == 0.5
        assert 2.0**-33 < discount.factor(float(tick)) <= 1.0
        assert scale == 1.0 or scale <= 2.0**-32
    assert discount.bits == pytest.approx(0.3 * 2999 / math.log(2), abs=33)


def test_without_forgetting_nothing_moves():
    discount = Discount(rate=0.0)
    assert discount.rebase(1e12) == 1.0
    assert discount.weight(1e12) == discount.factor(1e12) == 1.0


def test_a_jump_beyond_the_range_of_floats_forgets_all():
    discount = Discount(rate=math.log(2.0))
    assert discount.rebase(5000.0) == 0.0
    assert discount.factor(5000.0) == 1.0
    assert discount.weight(10.0) == 0.0


@given(rate=rates, now=st.floats(0, 1e5))
def test_arrays_and_copies_stand_at_the_same_anchor(rate, now):
    discount = Discount(rate, origin=7.0)
    discount.rebase(now)
    read_back = Discount.from_array(discount.array(), rate)
    copy = discount.copy()
    for other in (read_back, copy):
        assert (other.rate, other.origin, other.bits) == (discount.rate, discount.origin, discount.bits)
    before = copy.bits
    discount.rebase(now + 1e9)
    assert copy.bits == before
    assert np.array_equal(read_back.array(), copy.array())
