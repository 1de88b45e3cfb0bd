"""From a reading to a choice, for each kind of call: what `SigmaMem` records as a decision."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from sigma_mem.decide.adaptive import adaptive
from sigma_mem.decide.explore import explore
from sigma_mem.decide.reads import INFORMED, READS, ROUTES, VOTES, View, choose, vote_confidence
from sigma_mem.decide.route import calibrated_route, m_route
from sigma_mem.decide.vote import Vote, group
from sigma_mem.events import FloatArray
from sigma_mem.memory import Reading, SigmaState
from sigma_mem.session.given import Given, in_order

__all__ = ["Choice", "by_adaptive_read", "by_route", "by_vote"]


_LEAST_LEAN = 0.005  # log-odds that are worth telling
_NONE: Mapping[str, Any] = {}  # shared by all choices, changed by none


class Choice(NamedTuple):
    """Which peer (its index), by which read, how sure, with what probability, and what is worth keeping."""

    read: str
    peer: int
    confidence: float
    propensity: float = 1.0
    reads: Mapping[str, str] = _NONE
    details: Mapping[str, Any] = _NONE


def by_route(reading: Reading, read: str, rng: np.random.Generator | None) -> Choice:
    """Route; with a generator, explore."""
    if rng is not None:
        tried = explore(reading, rng)
        return Choice("exploring-route", tried.peer, float(reading.prob[tried.peer]), tried.propensity)
    peer = calibrated_route(reading.prob) if read == "calibrated-route" else m_route(reading.score)
    return Choice(read, peer, float(reading.prob[peer]))


def by_vote(reading: Reading, state: SigmaState, phi: FloatArray, given: Given, read: str) -> Choice:
    """Vote over the answers."""
    view = _view(reading, state, phi, given)
    vote = choose(read, view)
    return Choice(read, vote.peer, _confidence(read, vote, view), details=_leaning(read, state, view))


def by_adaptive_read(
    reading: Reading,
    state: SigmaState,
    phi: FloatArray,
    given: Given,
    over_reads: Reading,
    selected: Choice | None,
) -> Choice:
    """Make every read, and let the memory over reads choose among them (DESIGN §8)."""
    view = _view(reading, state, phi, given)
    votes = {read: choose(read, view) for read in (*VOTES, *ROUTES)}
    peers = {read: vote.peer for read, vote in votes.items()}
    if selected is not None:
        peers["select"] = selected.peer
    winner = READS[adaptive(over_reads.prob, [READS.index(read) for read in peers])]
    if winner == "select" and selected is not None:
        confidence = selected.confidence
    else:
        confidence = _confidence(winner, votes[winner], view)
    return Choice(
        f"adaptive:{winner}",
        peers[winner],
        confidence,
        reads={read: state.peers[peer] for read, peer in peers.items()},
        details={**_leaning(winner, state, view), **(_NONE if selected is None else selected.details)},
    )


def _confidence(read: str, vote: Vote, view: View) -> float:
    """Probability, in the read's own model, that its choice is right."""
    if read == "calibrated-vote":
        return vote_confidence(vote, view.alternatives)
    if read == "majority":
        return float((view.groups == vote.group).mean()) if vote.group >= 0 else 0.0
    return float((view.informed if read in INFORMED else view.prob)[vote.peer])


def _view(reading: Reading, state: SigmaState, phi: FloatArray, given: Given) -> View:
    answers = given.answers
    return View(
        score=reading.score,
        prob=reading.prob,
        lean=state.lean(*in_order(given.signs, state.peers)),
        groups=group([answers[peer].canon if peer in answers else None for peer in state.peers]),
        alternatives=state.alternatives(phi),
        readable=state.readable,
        G=state.G,
    )


def _leaning(read: str, state: SigmaState, view: View) -> dict[str, Any]:
    """By how many log-odds signs moved each answer, where the read looked at them."""
    if read not in INFORMED or np.abs(view.lean).max() < _LEAST_LEAN:
        return {}
    return {"lean": dict(zip(state.peers, view.lean.tolist(), strict=True))}
