"""The memory over reads: paired duels with the first read."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sigma_mem.decide.adaptive import adaptive, duels, settings_over_reads
from sigma_mem.memory import Settings, SigmaState

LABELS = st.lists(st.sampled_from([-1.0, 1.0, 0.25, np.nan]), min_size=2, max_size=6)


def test_the_first_read_stays_until_another_wins_more_than_half_of_its_duels() -> None:
    assert adaptive(np.array([0.5, 0.539, 0.1]), [0, 1, 2]) == 0
    assert adaptive(np.array([0.5, 0.541, 0.1]), [0, 1, 2]) == 1
    assert adaptive(np.array([0.9, 0.1, 0.2]), [0, 1, 2]) == 0


def test_only_an_available_read_is_chosen_and_ties_go_to_the_first_listed() -> None:
    assert adaptive(np.array([0.5, 0.6, 0.9]), [0, 1]) == 1
    assert adaptive(np.array([0.5, 0.6, 0.6]), [0, 1, 2]) == 1


@given(LABELS)
def test_a_duel_is_counted_only_where_the_two_differ(values: list[float]) -> None:
    c = np.array(values)
    out = duels(c)
    assert np.isnan(out[0])
    for mine, label in zip(c, out, strict=True):
        if np.isnan(mine) or np.isnan(c[0]) or mine == c[0]:
            assert np.isnan(label)
        else:
            assert np.sign(label) == np.sign(mine - c[0])
            assert abs(label) <= 1.0


def test_what_other_reads_do_does_not_move_a_read() -> None:
    """A peer is shrunk towards its pool; a read towards an even chance."""
    state = SigmaState(["first", "bad", "unknown"], 2, settings_over_reads(Settings()))
    phi = np.array([1.0, 0.0])
    for _ in range(200):
        state.write(phi, np.array([np.nan, -1.0, np.nan]), state.begin_event())
    prob = state.read(phi).prob
    assert prob[1] < 0.2
    assert abs(prob[2] - 0.5) < 1e-6
