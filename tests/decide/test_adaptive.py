import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sigma_mem.decide.adaptive import adaptive, margin

PROBS = st.lists(st.floats(0, 1), min_size=2, max_size=6)


def test_the_first_read_stays_until_another_leads_by_a_standard_error():
    evidence = np.full(3, 100.0)
    needed = float(margin(evidence, 0)[1])
    assert needed == pytest.approx(np.sqrt(0.05 / 100))
    assert adaptive(np.array([0.5, 0.4, 0.5 + 0.99 * needed]), [0, 1, 2], evidence) == 0
    assert adaptive(np.array([0.5, 0.4, 0.5 + 1.01 * needed]), [0, 1, 2], evidence) == 2


def test_a_read_of_which_little_is_known_must_lead_by_more():
    prob = np.array([0.5, 0.54, 0.53])
    assert adaptive(prob, [0, 1, 2], np.array([400.0, 4.0, 400.0])) == 2


def test_falls_back_on_the_first_that_is_available():
    assert adaptive(np.array([0.9, 0.5, 0.5]), [1, 2], np.full(3, 10.0)) == 1
    assert adaptive(np.array([0.9, 0.5, 0.9]), [1, 2], np.full(3, 1e6)) == 2


def test_without_evidence_the_largest_wins_and_ties_go_to_the_first_listed():
    assert adaptive(np.array([0.5, 0.7, 0.7]), [0, 1, 2]) == 1
    assert adaptive(np.array([0.7, 0.7, 0.5]), [0, 1, 2]) == 0


@given(PROBS)
def test_a_flood_of_evidence_gives_the_largest(values):
    prob = np.array(values)
    best = adaptive(prob, range(len(prob)), np.full(len(prob), 1e30))
    assert prob[best] >= prob.max() - 1e-12


@given(PROBS)
def test_what_is_chosen_is_never_below_the_first(values):
    prob = np.array(values)
    assert prob[adaptive(prob, range(len(prob)), np.full(len(prob), 10.0))] >= prob[0]
