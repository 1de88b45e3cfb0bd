"""One decision from several votes: the adaptive read.

Four votes use the same answers. Each is the right one for some pool:

    leader      only the peer with the best record votes         a majority that misleads, few labels
    calibrated  log-odds of p̂ at φ, tempered                     peers that err independently
    expert      who supports counts more than how many           experts among many
    joint       weights regressed jointly                        peers that err together, many labels

Their opinions are mixed by how likely they made what turned out right (`sigma_mem.memory.ballots`), and the
answer with the largest probability is chosen.
"""

import numpy as np
from numpy.typing import NDArray

from sigma_mem.decide.read import NOBODY, Outcome, View
from sigma_mem.decide.vote import winner
from sigma_mem.decide.weights import group_totals, vote_log_odds
from sigma_mem.events import FloatArray
from sigma_mem.memory.ballots import answer_opinions, opinion_weights

_EXPERT = 4.0  # weight of the supporters' mean log-odds relative to their sum


def mixture(view: View) -> Outcome:
    """Choose the answer that all votes together make the most likely; nobody if none can be read.

    The outcome keeps what every answer weighs in each vote, (votes, answers), as a ledger does.
    """
    ballots = view.ballots()
    lead = leader_weights(ballots.rate, ballots.labels, view.groups, view.alternatives)
    calibrated = view.vote_totals
    if not len(calibrated):
        return Outcome("adaptive", NOBODY, 0.0)
    expert = expert_totals(view.groups, calibrated, view.moved_prob, view.votes)
    rows = (
        group_totals(view.groups, lead),
        calibrated,
        expert,
        group_totals(view.groups, ballots.joint),
    )
    totals = np.array(rows, dtype=np.float16)  # as recorded, so that what is scored is what was mixed
    opinions = answer_opinions(totals.astype(np.float64))
    probable: FloatArray = opinion_weights(ballots.likelihood, view.alternatives) @ opinions
    chosen = winner(view.groups, probable, view.moved_prob)
    sure = probable.item(chosen.group)
    return Outcome("adaptive", chosen.peer, sure, totals=calibrated, used_text=True, votes=totals)


def leader_weights(
    rate: FloatArray, labels: FloatArray, groups: NDArray[np.intp], alternatives: float
) -> FloatArray:
    """Weights of a vote in which only the peer with the best rate so far takes part, (P,).

    Its weight is log q/(1 − q) + log(K − 1), q = (right + 1)/(labels + 2). Its answer can be read.
    Before any label nobody leads.

    Parameters
    ----------
    rate, labels : array (P,)
        How often every peer was right, and over how many labels.
    groups : int array (P,)
        Answer groups, negative without a readable answer.
    alternatives : float
        K − 1, the effective number of wrong answers that compete.

    Examples
    --------
    >>> rate, labels, groups = np.array([0.25, 0.75, 1.0]), np.full(3, 4.0), np.array([0, 1, -2])
    >>> leader_weights(rate, labels, groups, alternatives=1.0).round(2).tolist()
    [0.0, 0.69, 0.0]
    """
    out = np.zeros(len(rate))
    if labels.any():
        shrunk = (rate * labels + 1.0) / (labels + 2.0)
        best = int(np.where(groups >= 0, shrunk, -1.0).argmax())
        out[best] = vote_log_odds(shrunk[best : best + 1]).item() + np.log(alternatives)
    return out


def expert_totals(
    groups: NDArray[np.intp], totals: FloatArray, prob: FloatArray, votes: FloatArray | None = None
) -> FloatArray:
    """The totals of a calibrated vote, and four times the mean log-odds of each answer's supporters.

    If peers erred independently, the log-odds of an answer's supporters would add up; if they erred as one,
    their mean would be all there is. Real peers stand between: which peers support an answer counts for more
    than how many do.

    Two peers that are right 60 % of the time outvote one with 75 % if there are many ways to err, not here:

    >>> groups, prob = np.array([0, 1, 1]), np.array([0.75, 0.6, 0.6])
    >>> totals = group_totals(groups, vote_log_odds(prob) + np.log(9.0))
    >>> int(totals.argmax()), int(expert_totals(groups, totals, prob).argmax())
    (1, 0)
    """
    worth = np.ones(len(groups)) if votes is None else votes
    of_supporters = group_totals(groups, worth * vote_log_odds(prob)) / group_totals(groups, worth)
    out: FloatArray = totals + _EXPERT * of_supporters
    return out
