import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sigma_mem.decide.route import calibrated_route, m_route

values = st.lists(st.integers(-3, 3).map(float), min_size=1, max_size=8)


@pytest.mark.parametrize("route", [m_route, calibrated_route])
@given(values=values)
def test_the_largest_wins_and_ties_go_to_the_peer_listed_first(route, values):
    """eq:direct_m_route"""
    best = max(range(len(values)), key=lambda p: (values[p], -p))
    assert route(np.array(values)) == best
    assert type(route(np.array(values))) is int
