"""A mixture of votes leaves a majority that misleads, and keeps one that does not."""

import numpy as np
import pytest
from numpy.typing import NDArray

from sigma_mem import Settings, SigmaMem
from sigma_mem.decide.mixture import leader_weights
from sigma_mem.memory.ballots import OPINIONS, VOTES, answer_opinions, opinion_weights, opinions_of_peers


def test_opinions_are_probabilities() -> None:
    totals = np.random.default_rng(0).normal(scale=5.0, size=(len(VOTES), 4))
    opinions = answer_opinions(totals)
    assert opinions.shape == (len(OPINIONS), 4)
    np.testing.assert_allclose(opinions.sum(axis=1), 1.0)
    assert (opinion_weights(np.zeros(len(OPINIONS)), 3.0) @ opinions).sum() == pytest.approx(1.0)


def test_a_vote_without_an_opinion_gives_every_answer_the_same() -> None:
    assert np.ptp(answer_opinions(np.zeros((len(VOTES), 3)))) == pytest.approx(0.0)


def test_nobody_leads_before_a_label() -> None:
    assert not leader_weights(np.zeros(3), np.zeros(3), np.arange(3), alternatives=4.0).any()


def test_a_tie_for_the_lead_goes_to_the_peer_listed_first() -> None:
    lead = leader_weights(np.array([0.3, 0.6, 0.6]), np.full(3, 3.0), np.arange(3), 1.0)
    assert lead.nonzero()[0].tolist() == [1]


def test_likelihood_moves_weight_to_the_opinion_that_was_right() -> None:
    likelihood = np.zeros(len(OPINIONS))
    likelihood[0] = 6.0
    before, after = (opinion_weights(likely, 1.0) for likely in (np.zeros(len(OPINIONS)), likelihood))
    assert after[0] > 2.0 * before[0]


def test_the_more_answers_compete_the_more_an_agreement_is_believed() -> None:
    two, many = (opinion_weights(np.zeros(len(OPINIONS)), k) for k in (1.0, 9.0))
    calibrated = np.array([opinion.vote == "calibrated" for opinion in OPINIONS])
    assert two[calibrated].sum() == pytest.approx(0.2)
    assert many[calibrated].sum() == pytest.approx(81.0 / 85.0)


def test_a_vote_that_was_lucky_once_is_not_followed() -> None:
    """One opinion was sure of the right answer, the others gave it a probability of 0.3."""
    likelihood = np.log(np.where(np.arange(len(OPINIONS)) == 1, 0.99, 0.3))
    assert opinion_weights(likelihood, 1.0)[1] < 2.0 * opinion_weights(np.zeros(len(OPINIONS)), 1.0)[1]


def test_an_unreadable_answer_has_no_probability() -> None:
    opinions = answer_opinions(np.zeros((len(VOTES), 2)))
    assert opinions_of_peers(opinions, np.array([0, -1, 1, -2]))[0].tolist() == [0.5, 0.0, 0.5, 0.0]


def played(right: NDArray[np.bool_], labelled: int) -> float:
    """Share of right decisions after the first ``labelled`` events were labelled; two answers each."""
    peers = [f"peer {i}" for i in range(right.shape[1])]
    phi, correct = np.array([1.0, 0.0]), []
    with SigmaMem(peers, rank=2, settings=Settings(text_features=False)) as mem:
        for t, row in enumerate(right.tolist()):
            d = mem.decide(None, {p: "yes" if r else "no" for p, r in zip(peers, row, strict=True)}, phi=phi)
            correct.append(d.answer == "yes")
            if t < labelled:
                mem.feedback(d.id, dict(zip(peers, row, strict=True)))
    return float(np.mean(correct[labelled:]))


def test_twelve_labels_leave_a_majority_that_errs_as_one() -> None:
    """Five judges are wrong together on half of the tasks; the sixth is right nine times in ten."""
    rng = np.random.default_rng(1)
    deceived = rng.random(400) < 0.5
    five = ~deceived[:, None] ^ (rng.random((400, 5)) < 0.05)
    right = np.concatenate((five, rng.random((400, 1)) < 0.9), axis=1)
    majority = (right.sum(axis=1) > 3).mean()
    assert played(right, labelled=12) > 0.85 > 0.55 > majority


def test_twelve_labels_keep_a_majority_that_is_right() -> None:
    """Five independent peers that are right seven times in ten: no single one is as good as all."""
    pools = np.random.default_rng(0).random((6, 200, 5)) < 0.7
    majority = (pools.sum(axis=2) > 2)[:, 12:].mean()
    assert np.mean([played(right, labelled=12) for right in pools]) > majority - 0.04
