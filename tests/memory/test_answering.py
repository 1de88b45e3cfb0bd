import math

import numpy as np
import pytest

from sigma_mem.memory.answering import Answering
from sigma_mem.memory.discount import Discount

from . import naive
from .strategies import labels


@pytest.mark.parametrize("gamma", [0.4, 0.99, 1.0])
def test_the_rate_is_that_of_labelled_answers_which_were_asked_for(gamma):
    rng = np.random.default_rng(0)
    c, groups = labels(rng, (120, 4), 0.3, 0.0), rng.integers(-2, 2, (120, 4))
    answering = Answering(4, Discount(-math.log(gamma)))
    for t in range(120):
        answering.advance(t + 1.0)
        seen = 1.0 - np.isnan(c[t])
        answering.write(seen, groups[t], t + 1.0)
    np.testing.assert_allclose(answering.rate(120.0), naive.readable(c, groups, gamma), atol=1e-12)


def test_a_peer_is_credited_with_readable_answers_until_it_fails():
    answering = Answering(2, Discount(0.0))
    assert answering.rate(0.0).tolist() == [1.0, 1.0]
    for _ in range(6):
        answering.write(np.ones(2), np.array([0, -1]), 1.0)
    assert answering.rate(1.0).tolist() == [1.0, 0.25]


def test_take_and_merge():
    one, two = (Answering(2, Discount(math.log(2.0))) for _ in range(2))
    one.write(np.ones(2), np.array([-1, 0]), 2.0)
    two.write(np.ones(2), np.array([7, -1]), 1.0)
    moved = two.take([1, -1, 0])
    assert moved.rate(1.0).tolist() == [2 / 3, 1.0, 1.0]
    one.merge(two, mine=2.0, theirs=2.0)
    assert one.rate(2.0).tolist() == pytest.approx([2.5 / 3.5, 3 / 3.5])


def test_an_answer_that_was_not_asked_for_does_not_count():
    answering = Answering(2, Discount(0.0))
    answering.write(np.ones(2), np.array([-2, -1]), 1.0)
    assert answering.rate(1.0).tolist() == [1.0, 2 / 3]
