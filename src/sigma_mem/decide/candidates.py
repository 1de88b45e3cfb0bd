"""A route among some of the peers: what the memory says of them, as if the others were not in the pool."""

import numpy as np
from numpy.typing import NDArray

from sigma_mem.decide.read import View


def view_among(view: View, rows: NDArray[np.intp]) -> View:
    """What a read may look at of the peers in `rows`; the index of its choice counts along `rows`."""
    return View(
        score=view.score[rows],
        prob=view.prob[rows],
        groups=view.groups[rows],
        text_log_odds=view.text_log_odds[rows],
        alternatives=view.alternatives,
        readable=view.readable[rows],
        relation=lambda: view.relation()[np.ix_(rows, rows)],
        utility=None if view.utility is None else view.utility[rows],
        labelled=view.labelled,
        votes=None if view.votes is None else view.votes[rows],
    )
