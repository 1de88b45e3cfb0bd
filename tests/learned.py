"""What a memory has learned, as of now: the same for the same lines, however they were written."""

import numpy as np

from sigma_mem.memory.kernel import fold_window


class Nearly:
    """Numbers that equal others up to the rounding of sums in another order."""

    def __init__(self, values):
        self.values = values

    def __eq__(self, other):
        mine, theirs = self.values, other.values
        rows = min(len(mine), len(theirs))  # topics have room for more
        extra = mine[rows:].any() or theirs[rows:].any()
        return not extra and np.allclose(mine[:rows], theirs[:rows], rtol=1e-6, atol=1e-9)

    __hash__ = None

    def __repr__(self):
        return repr(self.values)


def learned(state):
    """Every sum by name, decayed to where the memory stands, whatever its anchors and windows."""
    sums = state.sums.take(range(len(state.peers)))
    for name in ("competence", "pairs"):
        fold_window(sums, name)
    decayed = [name for name, declared in sums.declared.items() if declared.rate is not None]
    windows = {name.replace(".phis", ".recent") for name in sums if name.endswith(".phis")}
    return {
        "clock": Nearly(np.array([state.clock, state.now])),
        "topics": state.topics.names,
        "peers": state.peers,
        **{x: Nearly(sums[x] * sums.factors(x, state.now)) for x in decayed if x not in windows},
    }


def all_learned(holder):
    """Of a memory, or of what was replayed of it."""
    return learned(holder.state)


def assert_alike(one, two):
    """Two memories have learned the same."""
    first, second = all_learned(one), all_learned(two)
    for name, values in first.items():
        assert values == second[name], name
