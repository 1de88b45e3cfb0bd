"""What reads may look at when they decide on one event, and what is claimed of the answer they choose."""

from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sigma_mem.answers.features import Answers
from sigma_mem.decide import Outcome, View
from sigma_mem.decide.vote import group_answers, vote_totals
from sigma_mem.events import Answer, FloatArray
from sigma_mem.memory import Reading, SigmaState
from sigma_mem.memory.confidence import answer_claims
from sigma_mem.memory.copies import agreement_beside_copies, votes_among


def view_of(
    state: SigmaState,
    reading: Reading,
    phi: FloatArray,
    answers: Answers,
    utility: FloatArray | None,
    copying: FloatArray | None,
    pairs: FloatArray | None = None,
) -> View:
    """What the reads may look at; a route has no answers to look at. `pairs` as for `SigmaState.read`."""
    peers, given = state.peers, answers.by_peer
    if not given:
        groups, zeros = _no_answers(len(peers))
        return View(reading.score, reading.prob, groups, zeros, 1.0, zeros, lambda: state.G, state.labelled)
    groups = _groups(peers, given)
    return View(
        score=reading.score,
        prob=reading.prob,
        groups=groups,
        text_log_odds=state.text_log_odds(*answers.feature_rows(peers)),
        alternatives=state.alternatives(phi, pairs),
        readable=state.readable,
        relation=lambda: state.G,
        utility=utility,
        labelled=state.labelled,
        votes=None if copying is None else votes_among(groups, copying),
    )


def _groups(peers: Sequence[str], given: Mapping[str, Answer]) -> NDArray[np.intp]:
    """Answer groups; −1 where an answer cannot be read, −2 where a peer gave none."""
    groups = group_answers([given[peer].canon if peer in given else None for peer in peers])
    for place, peer in enumerate(peers):
        if peer not in given or (given[peer].canon is None and not given[peer].text):
            groups[place] = -2
    return groups


@lru_cache
def _no_answers(n_peers: int) -> tuple[NDArray[np.intp], FloatArray]:
    return np.full(n_peers, -2), np.zeros(n_peers)


def recorded_agreement(
    view: View, answers: Answers, copying: FloatArray | None, peers: Sequence[str]
) -> FloatArray | None:
    """Agreement labels of the answers; None where no copies are among them, and the canons say it all."""
    if copying is None or view.votes is None or min(view.votes.tolist()) == 1.0:
        return None
    asked = np.array(
        [
            max(group, -1) if peer in answers.by_peer else -2
            for peer, group in zip(peers, view.groups.tolist(), strict=True)
        ]
    )
    return agreement_beside_copies(asked, copying, view.votes)


def believed(state: SigmaState, view: View, outcome: Outcome) -> tuple[float, list[str | float]]:
    """The calibrated confidence in the answer that was chosen, and the claims behind it, for the ledger."""
    peer = outcome.peer
    claims = answer_claims(vote_totals(view, outcome), view.alternatives, int(view.groups[peer]))
    claim = state.mixed_claim(claims)
    return state.calibrated(claim), [state.peers[peer], *claims.tolist(), claim]
