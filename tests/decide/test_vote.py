import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sigma_mem.decide import READS, View
from sigma_mem.decide.mixture import expert_totals
from sigma_mem.decide.read import NOBODY
from sigma_mem.decide.vote import group_answers, m_vote, majority, tally, winner
from sigma_mem.decide.weights import calibrated_weights, group_totals, tempered

from . import naive

canon = st.sampled_from(["7", "8", "nine", None])
# Eighths add up without rounding, so that ties are ties.
weight = st.integers(-16, 16).map(lambda x: x / 8.0)
ballots = st.lists(st.tuples(canon, weight), min_size=1, max_size=8)


def unpacked(ballot):
    canons, weights = zip(*ballot, strict=True)
    return list(canons), np.array(weights)


def test_canons_are_numbered_in_order_of_first_appearance():
    assert group_answers(["b", None, "a", "b", None, ""]).tolist() == [0, -1, 1, 0, -1, 2]
    assert group_answers([]).tolist() == []


@given(ballot=ballots)
def test_before_the_first_label_a_vote_is_a_majority_that_weights_untie(ballot):
    canons, weights = unpacked(ballot)
    groups = group_answers(canons)
    if (groups < 0).all():
        return
    counts = np.bincount(groups[groups >= 0])
    sums = np.bincount(groups[groups >= 0], weights=weights[groups >= 0])
    leading = [g for g in range(len(counts)) if counts[g] == counts.max()]
    best = max(leading, key=lambda g: (sums[g], -g))
    votes = tally(groups, tempered(weights, groups, labelled=0.0), weights)
    assert counts[votes.group] == counts.max()
    untied = majority(groups, weights, weights)
    assert counts[untied.group] == counts.max()
    assert sums[untied.group] == pytest.approx(sums[best], abs=1e-6)  # equal sums may differ by rounding
    assert sums[votes.group] == pytest.approx(sums[best], abs=1e-6)


@given(ballot=ballots)
def test_with_many_labels_a_vote_has_its_full_weights(ballot):
    canons, weights = unpacked(ballot)
    groups = group_answers(canons)
    np.testing.assert_allclose(tempered(weights, groups, labelled=1e9), weights, atol=1e-12)


@given(ballot=ballots)
def test_m_vote_is_the_papers(ballot):
    """eq:direct_m_vote"""
    canons, score = unpacked(ballot)
    vote = m_vote(group_answers(canons), score)
    if any(c is not None for c in canons):
        assert canons[vote.peer] == naive.winner(canons, score)
        assert len(vote.totals) == len({c for c in canons if c is not None})


@given(ballot=ballots)
def test_majority_is_the_papers(ballot):
    """eq:direct_majority: 1/P per peer, whoever it is."""
    canons, competence = unpacked(ballot)
    vote = majority(group_answers(canons), competence)
    if any(c is not None for c in canons):
        assert canons[vote.peer] == naive.winner(canons, [1 / 8] * len(canons))
        assert vote.totals.sum() == pytest.approx(sum(c is not None for c in canons) / len(canons))


def calibrated_vote(groups, prob, weights, votes=1.0):
    return tally(groups, votes * weights, prob)


def expert_vote(groups, prob, weights, votes=None):
    totals = group_totals(groups, weights if votes is None else votes * weights)
    return winner(groups, expert_totals(groups, totals, prob, votes), prob)


@given(ballot=ballots, alternatives=st.sampled_from([1.0, 3.0, 9.0]))
def test_calibrated_vote_is_the_bayes_rule(ballot, alternatives):
    """Its winner has the largest posterior, if peers err independently over K − 1 equally likely answers."""
    canons, weights = unpacked(ballot)
    prob = 0.5 + weights / 5.0
    groups = group_answers(canons)
    if all(c is None for c in canons):
        return
    likelihood = {}
    for truth in dict.fromkeys(c for c in canons if c is not None):
        product = 1.0
        for answer, p in zip(canons, prob, strict=True):
            if answer is not None:
                product *= p if answer == truth else (1.0 - p) / alternatives
        likelihood[truth] = product
    best = max(likelihood.values())
    chosen = canons[calibrated_vote(groups, prob, calibrated_weights(prob, alternatives)).peer]
    assert likelihood[chosen] == pytest.approx(best, rel=1e-9)


@given(ballot=ballots)
def test_the_winner_is_represented_by_its_most_competent_member(ballot):
    canons, competence = unpacked(ballot)
    groups = group_answers(canons)
    for vote in (majority(groups, competence), m_vote(groups, competence)):
        members = [p for p in range(len(canons)) if groups[p] == vote.group >= 0]
        assert vote.peer == max(members, key=lambda p: (competence[p], -p), default=NOBODY)


@given(ballot=ballots)
def test_a_null_canon_cannot_win(ballot):
    canons, competence = unpacked(ballot)
    groups = group_answers(canons)
    heavy = np.where(groups < 0, 1e9, competence)
    for vote in (tally(groups, heavy, heavy), majority(groups, heavy), m_vote(groups, heavy)):
        assert vote.peer == NOBODY if all(c is None for c in canons) else canons[vote.peer] is not None


def test_where_all_canons_are_null_nobody_is_chosen():
    vote = tally(np.array([-1, -2, -1]), np.ones(3), np.array([0.1, 0.7, 0.7]))
    assert (vote.peer, vote.group, len(vote.totals)) == (NOBODY, -1, 0)


def test_ties_between_answers_go_to_the_one_listed_first():
    assert majority(group_answers(["x", "y", "y", "x"]), np.array([0.1, 0.9, 0.9, 0.2])).peer == 3
    assert m_vote(group_answers(["x", "y"]), np.array([0.5, 0.5])).peer == 0


def test_negative_scores_speak_against_an_answer():
    """Two bad peers that agree lose against one of whom nothing is known."""
    assert m_vote(group_answers(["x", "x", "y"]), np.array([-0.2, -0.2, 0.0])).peer == 2


@given(ballot=ballots, seed=st.integers(0, 1000))
def test_permuting_peers_permutes_the_vote(ballot, seed):
    """Where nothing is tied: weights made distinct."""
    canons, weights = unpacked(ballot)
    weights = weights + np.array([math.pi**-k for k in range(3, 3 + len(weights))])
    order = np.random.default_rng(seed).permutation(len(canons))
    one = tally(group_answers(canons), weights, weights)
    two = tally(group_answers([canons[p] for p in order]), weights[order], weights[order])
    assert (two.peer if two.peer == NOBODY else order[two.peer]) == one.peer


def test_weights_are_log_odds_plus_log_k_minus_1_and_stay_finite():
    weights = calibrated_weights(np.array([0.5, 0.8, 0.0, 1.0]), 3.0)
    assert weights[0] == pytest.approx(math.log(3.0))
    assert weights[1] == pytest.approx(math.log(4.0) + math.log(3.0))
    assert np.isfinite(weights).all()
    assert weights[2] < -5 < 4 < weights[3]  # however good or bad its record


def test_a_peer_that_often_cannot_be_read_is_trusted_more_where_it_can():
    """p̂ counts an unreadable answer as wrong; p̂/√ρ weighs an answer that was read."""
    plain = calibrated_weights(np.array([0.8]), 3.0)
    np.testing.assert_allclose(calibrated_weights(np.array([0.4]), 3.0, np.array([0.25])), plain)
    groups, prob = np.array([0, 1]), np.array([0.5, 0.6])
    assert calibrated_vote(groups, prob, calibrated_weights(prob, 3.0)).peer == 1
    often_unread = calibrated_weights(prob, 3.0, np.array([0.6, 1.0]))
    assert calibrated_vote(groups, prob, often_unread).peer == 0


@given(
    ballot=st.lists(st.tuples(canon, st.floats(0.05, 0.95)), min_size=1, max_size=8),
    alternatives=st.floats(1.0, 9.0),
)
def test_an_expert_vote_adds_four_times_the_mean_supporter(ballot, alternatives):
    canons, prob = unpacked(ballot)
    vote = expert_vote(group_answers(canons), prob, calibrated_weights(prob, alternatives))
    odds = [math.log(p / (1.0 - p)) for p in prob]
    given_canons = list(dict.fromkeys(c for c in canons if c is not None))
    for total, answer in zip(vote.totals, given_canons, strict=True):
        own = [odd for odd, c in zip(odds, canons, strict=True) if c == answer]
        assert total == pytest.approx(
            sum(own) + len(own) * math.log(alternatives) + 4.0 * sum(own) / len(own)
        )
    if given_canons:
        assert canons[vote.peer] == given_canons[int(np.argmax(vote.totals))]
    else:
        assert vote.peer == NOBODY


def test_one_expert_stands_against_two_where_a_calibrated_vote_follows_the_two():
    groups, prob = group_answers(["7", "8", "8"]), np.array([0.75, 0.6, 0.6])
    assert calibrated_vote(groups, prob, calibrated_weights(prob, 9.0)).group == 1
    assert expert_vote(groups, prob, calibrated_weights(prob, 9.0)).group == 0
    closer = np.array([0.65, 0.6, 0.6])
    assert expert_vote(groups, closer, calibrated_weights(closer, 9.0)).group == 1


def test_copies_of_a_peer_are_worth_one_vote_together():
    groups, prob = np.array([0, 0, 0, 1, 1]), np.full(5, 0.6)
    votes = np.array([1 / 3, 1 / 3, 1 / 3, 1.0, 1.0])
    weights = calibrated_weights(prob, 3.0)
    few = tempered(weights, groups, labelled=7.0)
    for vote in (calibrated_vote, expert_vote):
        assert vote(groups, prob, weights).group == 0
        assert vote(groups, prob, weights, votes).group == 1
        np.testing.assert_allclose(
            vote(groups, prob, weights, votes).totals, vote(groups[2:], prob[2:], weights[2:]).totals
        )
        plain, worth_one = vote(groups, prob, few), vote(groups, prob, few, np.ones(5))
        assert plain.totals.tobytes() == worth_one.totals.tobytes()
    # A majority counts heads; only its ties ask what they are worth.
    view = View(prob, prob, groups, np.zeros(5), 3.0, np.ones(5), lambda: np.eye(5), 0.0, None, votes=votes)
    assert READS["majority"].choose(view).group == 0
    tied = replace(view, groups=np.array([0, 0, -1, 1, 1]))
    assert READS["majority"].choose(tied).group == 1
    assert READS["majority"].choose(replace(tied, votes=None)).group == 0
