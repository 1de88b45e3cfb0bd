"""The confidence experiment: what a session claims, scored as it was claimed."""

import numpy as np
import pytest
from madeup import made_up

from sigma_lab.bench.experiments.confidence import ConfidentPlayer, claim_values, confidence_table
from sigma_lab.bench.forecast import Forecast
from sigma_lab.bench.league import DEFAULT
from sigma_lab.bench.play import play


def test_claims_are_those_of_a_session() -> None:
    stream, phis = made_up(80)
    with DEFAULT.memory(stream.peers, phis.shape[1]) as memory:
        player = ConfidentPlayer(memory, "vote", 0.9)
        play(stream, phis, player)
    with DEFAULT.memory(stream.peers, phis.shape[1]) as memory:
        right = []
        for place, (event, phi) in enumerate(zip(stream, phis, strict=True)):
            decision = memory.vote(event.question, event.answers, phi=phi, min_confidence=0.9)
            assert player.confidence["vote"][place] == decision.confidence
            assert player.answered[place] == (decision.peer is not None)
            peer = decision.peer or decision.details["abstained"]["peer"]
            right.append(event.correct[peer] > 0)
            memory.feedback(decision.id, event.correct)
    found = confidence_table(stream, phis).values
    assert (found["after"], found["claims"]["vote"]["scored"]) == (40, 40)
    assert found["claims"]["vote"]["right"] == pytest.approx(np.mean(right[40:]))


def test_the_claims_of_a_vote_can_be_believed() -> None:
    vote = confidence_table(*made_up(400, n_peers=6)).values["claims"]["vote"]
    assert vote["ece"] <= vote["ece_limit"]


def test_fewer_labels_leave_other_claims_and_all_are_scored() -> None:
    stream, phis = made_up(60)
    some, full = (confidence_table(stream, phis, share=s).values["claims"]["decide"] for s in (0.2, 1.0))
    assert some["scored"] == full["scored"] == 30
    assert some["confidence"] != full["confidence"]


def test_what_is_not_answered_is_not_counted_as_right() -> None:
    forecast = Forecast(np.array([0.9, 0.8, 0.2]), np.array([1.0, 1.0, 0.0]))
    found = claim_values(forecast, np.array([True, False, False]), 0.9, seed=0)
    assert (found["answers"], found["answers_right"]) == (pytest.approx(1 / 3, abs=1e-6), 1.0)
    assert found["answers_in_hindsight"] == pytest.approx(2 / 3, abs=1e-6)
    assert claim_values(forecast, np.zeros(3, dtype=bool), 0.9, seed=0)["answers_right"] is None
    assert claim_values(forecast, None, 0.9, seed=0)["answers"] is None
