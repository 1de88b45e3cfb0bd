import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sigma_mem.decide import READS, Choice, View
from sigma_mem.decide.posterior import normalized_utility
from sigma_mem.decide.vote import tally, vote_confidence
from sigma_mem.decide.weights import calibrated_weights
from sigma_mem.errors import InputError

from . import naive

SINGLE = [*READS.votes, *READS.routes]


def view(score, prob, groups, G=None, alternatives=3.0, readable=None, text_log_odds=None):
    return View(
        score=np.array(score),
        prob=np.array(prob),
        text_log_odds=np.zeros(len(score)) if text_log_odds is None else np.array(text_log_odds),
        groups=np.array(groups),
        alternatives=alternatives,
        readable=np.ones(len(score)) if readable is None else np.array(readable),
        relation=lambda: np.eye(len(score)) if G is None else G,
        labelled=1e9,
        ballots=lambda: pytest.fail("no single read mixes votes"),
    )


def test_every_read_can_be_told_from_the_others():
    """Five peers, answers x x y z null; every read looks at something else."""
    here = view(
        score=[0.1, 0.1, 0.5, 0.2, 0.9],
        prob=[0.6, 0.7, 0.65, 0.9, 0.8],
        groups=[0, 0, 1, 2, -1],
        alternatives=1.0,
    )
    chosen = {read: READS[read].choose(here).peer for read in SINGLE}
    assert chosen["m-route"] == 4  # the largest score, before anyone answers
    assert chosen["calibrated-route"] == 3
    assert chosen["majority"] == 1  # x, by its most competent member
    assert chosen["m-vote"] == 2
    assert chosen["calibrated-vote"] == 3
    assert chosen["posterior-no-g"] == 2  # the largest score among answers that are not null


@pytest.mark.parametrize("read", ["m-route", "calibrated-route"])
@given(values=st.lists(st.tuples(st.integers(-3, 3).map(float), st.integers(-2, 2)), min_size=1, max_size=8))
def test_a_route_takes_the_largest_of_those_that_answered_and_the_first_of_equals(read, values):
    """eq:direct_m_route"""
    worth, groups = zip(*values, strict=True)
    able = [p for p, group in enumerate(groups) if group > -2] or list(range(len(groups)))
    chosen = READS[read].choose(view(worth, worth, groups))
    assert (chosen.peer, chosen.group) == (max(able, key=lambda p: (worth[p], -p)), groups[chosen.peer])


def test_a_registry_is_checked():
    with pytest.raises(InputError, match="expected distinct names"):
        READS.with_read(READS["majority"])


@pytest.mark.parametrize("read", SINGLE)
def test_text_features_move_the_votes_that_go_by_competence_and_nothing_else(read):
    here = view([0.1] * 3, [0.6, 0.6, 0.55], [0, 0, 1], alternatives=1.0, text_log_odds=[-1.0, -1.0, 1.0])
    chosen = READS[read].choose(here).peer
    assert chosen == (2 if read == "calibrated-vote" else 0)


@pytest.mark.parametrize("read", sorted(READS.votes))
def test_a_null_canon_wins_no_vote(read):
    assert READS[read].choose(view([0.1, 0.9], [0.6, 0.95], [0, -1])).peer == 0


def test_the_posterior_read_uses_relations_and_the_other_does_not():
    """The best is right and wrong together with the worst, the second best with the third."""
    G = np.eye(4)
    G[0, 3] = G[3, 0] = G[1, 2] = G[2, 1] = 0.9
    here = view([0.50, 0.48, 0.40, 0.0], [0.6] * 4, [0, 1, 2, 3], G)
    assert READS["posterior-no-g"].choose(here).peer == 0
    assert READS["posterior"].choose(here).peer == 1
    assert naive.posterior(normalized_utility(here.score), G, 1.0, 1.0).argmax() == 1


def test_confidence_is_the_posterior_of_the_winning_answer():
    """Against Bayes' rule over K answers of which two were given."""
    prob, k_minus_1 = np.array([0.7, 0.6, 0.8]), 4.0
    vote = tally(np.array([0, 0, 1]), calibrated_weights(prob, k_minus_1), prob)
    likelihood = []
    for truth in range(5):
        terms = [p if g == truth else (1.0 - p) / k_minus_1 for p, g in zip(prob, (0, 0, 1), strict=True)]
        likelihood.append(math.prod(terms))
    assert vote_confidence(vote, k_minus_1) == pytest.approx(likelihood[vote.group] / sum(likelihood))


def test_a_vote_that_nobody_could_win_has_no_confidence():
    assert vote_confidence(Choice(0, -1, np.zeros(0)), 3.0) == 0.0


@example(seed=50, n=3)  # the choice differs from that with w_g = 1.1
@example(seed=153, n=3)  # and from that with w_g = 0.9
@given(seed=st.integers(0, 10_000), n=st.integers(2, 5))
def test_the_posterior_reads_are_the_papers_on_scores(seed, n):
    """With weights 1: the largest expectation among readable answers, by enumeration."""
    rng = np.random.default_rng(seed)
    G = rng.uniform(-1.0, 1.0, (n, n))
    G = (G + G.T) / 2.0
    np.fill_diagonal(G, 1.0)
    here = view(rng.normal(size=n), [0.5] * n, np.arange(n), G)
    for read, w_g in (("posterior", 1.0), ("posterior-no-g", 0.0)):
        expectation = naive.posterior(normalized_utility(here.score), G, 1.0, w_g)
        chosen = READS[read].choose(here).peer
        assert expectation[chosen] == pytest.approx(expectation.max(), abs=1e-9)


def test_what_several_reads_share_belongs_to_one_view():
    here = view([0.1, 0.2], prob=[0.6, 0.55], groups=[0, 1], text_log_odds=[-0.5, 0.5])
    assert here.weights is here.weights
    bare = replace(here, text_log_odds=np.zeros(2))
    assert bare.moved_prob.tolist() == [0.6, 0.55] != here.moved_prob.tolist()
    assert bare.weights.tolist() == calibrated_weights(bare.prob, bare.alternatives, bare.readable).tolist()
