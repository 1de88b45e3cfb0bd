from __future__ import annotations

import numpy as np

from sigma_mem.streams.chance import chance


def test_known_values_never_change() -> None:
    assert [round(chance(s, "order", "a"), 6) for s in (0, 1)] == [0.410092, 0.548747]


def test_is_uniform_and_seeds_are_unrelated() -> None:
    a = np.array([chance(0, str(i)) for i in range(20_000)])
    b = np.array([chance(1, str(i)) for i in range(20_000)])
    counts = np.histogram(a, bins=20, range=(0, 1))[0]
    assert np.sum((counts - 1000) ** 2 / 1000) < 44  # χ², 19 degrees of freedom, p = 0.001
    assert abs(np.corrcoef(a, b)[0, 1]) < 0.03


def test_keys_do_not_run_together() -> None:
    assert chance(0, "ab", "c") != chance(0, "a", "bc")
