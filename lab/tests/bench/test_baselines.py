"""Baselines against naive references, and the one protocol they share."""

import numpy as np
import pytest

from sigma_lab.bench.baselines import Beta, ClusterBeta, NearestNeighbours, Router, cluster
from sigma_lab.bench.row import any_right, best_fixed, domain_oracle, random_correct
from sigma_mem.encode.base import unit

RANK, PEERS = 6, 3
ALL = np.full(PEERS, True)


def routers() -> dict[str, Router]:
    centres = np.eye(RANK)[:2]
    return {
        "beta": Beta(PEERS, 0.9),
        "cluster": ClusterBeta(PEERS, centres, 0.9),
        "knn": NearestNeighbours(PEERS, 5),
    }


def test_beta_b1_is_the_papers_recursion() -> None:
    rng = np.random.default_rng(0)
    labels = rng.choice([-1.0, 1.0], size=(50, PEERS))
    router = Beta(PEERS, 0.9)
    alpha, beta = [1.0] * PEERS, [1.0] * PEERS
    for row in labels:
        router.learn(np.zeros(RANK), row, 0)
        for p in range(PEERS):
            r = 1.0 if row[p] > 0 else 0.0
            alpha[p], beta[p] = 0.9 * alpha[p] + r, 0.9 * beta[p] + 1.0 - r
    assert router.alpha == pytest.approx(alpha)
    assert router.beta == pytest.approx(beta)
    means = [a / (a + b) for a, b in zip(alpha, beta, strict=True)]
    assert router.choose(np.zeros(RANK), ALL) == means.index(max(means))


@pytest.mark.parametrize("name", sorted(routers()))
def test_a_missing_label_teaches_nothing_about_its_peer(name: str) -> None:
    phi = np.eye(RANK)[0]
    with_gap, without = routers()[name], routers()[name]
    for _ in range(8):
        with_gap.learn(phi, np.array([np.nan, 1.0, -1.0]), 1)
        without.learn(phi, np.array([-1.0, 1.0, -1.0]), 1)
    assert with_gap.choose(phi, ALL) == without.choose(phi, ALL) == 1
    # A peer that is missing is not wrong: once it is right, it overtakes one that was wrong before.
    with_gap.learn(phi, np.array([np.nan, -1.0, -1.0]), 1)
    for _ in range(4):
        with_gap.learn(phi, np.array([1.0, -1.0, -1.0]), 1)
    assert with_gap.choose(phi, ALL) == 0


@pytest.mark.parametrize("name", sorted(routers()))
def test_ties_go_to_the_first_peer(name: str) -> None:
    router = routers()[name]
    assert router.choose(np.eye(RANK)[0], ALL) == 0
    router.learn(np.eye(RANK)[0], np.full(PEERS, 1.0), 2)
    assert router.choose(np.eye(RANK)[0], ALL) == 0


def test_clusters_keep_their_own_evidence() -> None:
    centres = np.eye(RANK)[:2]
    router = ClusterBeta(PEERS, centres, 0.99)
    for _ in range(5):
        router.learn(centres[0], np.array([-1.0, 1.0, -1.0]), 0)
        router.learn(centres[1], np.array([-1.0, -1.0, 1.0]), 0)
    assert [router.choose(c, ALL) for c in centres] == [1, 2]


def test_cluster_finds_separate_groups_and_is_seeded() -> None:
    rng = np.random.default_rng(1)
    groups = unit(rng.normal(size=(4, RANK)))
    phis = unit(np.repeat(groups, 30, axis=0) + 0.02 * rng.normal(size=(120, RANK)))
    centres = cluster(phis, 4, seed=3)
    assert np.array_equal(centres, cluster(phis, 4, seed=3))
    found = {int(np.square(centres - g).sum(axis=1).argmin()) for g in groups}
    assert len(found) == 4
    assert np.abs(centres[:, None] - groups[None]).sum(axis=2).min(axis=0).max() < 0.1


def test_knn_matches_a_naive_search() -> None:
    rng = np.random.default_rng(2)
    phis = unit(rng.normal(size=(200, RANK)))
    labels = rng.choice([-1.0, 1.0, np.nan], size=(200, PEERS))
    router = NearestNeighbours(PEERS, k=7)
    for t, phi in enumerate(phis):
        chosen = router.choose(phi, ALL)
        past = [s for s in range(t) if not np.isnan(labels[s]).all()]
        near = sorted(past, key=lambda s: -float(phis[s] @ phi))[:7]
        rate = []
        for p in range(PEERS):
            seen = [labels[s, p] for s in near if not np.isnan(labels[s, p])]
            rate.append((sum(c > 0 for c in seen) + 1) / (len(seen) + 2))
        assert chosen == rate.index(max(rate))
        router.learn(phi, labels[t], chosen)


@pytest.mark.parametrize("name", sorted(routers()))
def test_an_absent_peer_is_not_chosen(name: str) -> None:
    phi, router = np.eye(RANK)[0], routers()[name]
    assert router.choose(phi, np.array([False, False, True])) == 2
    for _ in range(8):
        router.learn(phi, np.array([1.0, -1.0, 0.5]), 0)
    assert router.choose(phi, ALL) == 0
    assert router.choose(phi, np.array([False, True, True])) == 2


def test_hindsight_rows_are_ordered() -> None:
    rng = np.random.default_rng(3)
    labels = rng.choice([-1.0, 1.0], size=(300, PEERS))
    domains = [f"d{i % 4}" for i in range(300)]
    rows = np.arange(300)
    there = np.full(labels.shape, True)

    def accuracy(choice: np.ndarray) -> float:
        return float((labels[rows, choice] > 0).mean())

    assert random_correct(labels, there) == pytest.approx((labels > 0).mean(axis=1))
    assert (
        random_correct(labels, there).mean()
        <= accuracy(best_fixed(labels, there))
        <= accuracy(domain_oracle(labels, domains, there))
        <= accuracy(any_right(labels, there))
    )
    assert accuracy(any_right(labels, there)) == pytest.approx((labels > 0).any(axis=1).mean())
    for d in range(4):
        mine = rows[rows % 4 == d]
        best = max(float((labels[mine, p] > 0).mean()) for p in range(PEERS))
        oracle = domain_oracle(labels, domains, there)[mine]
        assert (labels[mine, oracle] > 0).mean() == pytest.approx(best)


def test_hindsight_counts_labels_by_their_value_and_chooses_among_those_present() -> None:
    # The second peer is a little right everywhere, the first one fully right once: 0.6 against 0.5.
    labels = np.array([[1.0, 0.2, np.nan], [-1.0, 0.2, np.nan], [np.nan, np.nan, -0.6]])
    there = ~np.isnan(labels)
    assert best_fixed(labels, there).tolist() == [1, 1, 2]
    assert domain_oracle(labels, ["a", "a", "b"], there).tolist() == [1, 1, 2]
    assert any_right(labels, there).tolist() == [0, 1, 2]
    assert random_correct(labels, there) == pytest.approx([0.8, 0.3, 0.2])
