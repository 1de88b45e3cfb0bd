from dataclasses import replace

import numpy as np
import torch

from sigma_lab.train.data import EpisodeSettings, prepare
from sigma_lab.train.learner import start_reading
from sigma_lab.train.objective import phi_of
from sigma_lab.train.phi import Stage1Settings, fit_phi, start_map

from .tiny import tiny_features, tiny_stream

STREAM = tiny_stream(150, peers=3)
FEATURES = tiny_features(STREAM)
DOMAINS = np.array([int(e.domain[1:]) for e in STREAM])


def test_the_start_tells_domains_apart() -> None:
    phi = start_map(FEATURES, DOMAINS, Stage1Settings())(FEATURES)
    assert phi.shape == (150, 4)
    gram = phi @ phi.T
    same = DOMAINS[:, None] == DOMAINS[None, :]
    assert gram[same].mean() > gram[~same].mean() + 0.5


def test_one_domain_falls_back_to_principal_coordinates() -> None:
    phi = start_map(FEATURES, np.zeros(150, dtype=np.intp), Stage1Settings(rank=5))
    assert phi.rank == 5
    z = (FEATURES - phi.mean) @ phi.whiten.T @ phi.weight.T
    covariance = np.cov(z.T)
    np.testing.assert_allclose(covariance / covariance[0, 0], np.eye(4), atol=1e-9)


def test_a_larger_rank_than_domains_keeps_room_to_grow() -> None:
    phi = start_map(FEATURES, DOMAINS, Stage1Settings(rank=8))
    assert phi.rank == 8
    norms = np.linalg.norm(phi.weight, axis=1)
    assert (norms > 0).all()
    assert norms[3:].max() < norms[:3].min()


def test_the_graph_and_the_map_agree() -> None:
    phi = start_map(FEATURES, DOMAINS, Stage1Settings())
    x = torch.from_numpy((FEATURES - phi.mean) @ phi.whiten.T)
    np.testing.assert_allclose(
        phi_of(x, torch.from_numpy(phi.weight), phi.const).numpy(), phi(FEATURES), atol=1e-12
    )


def test_fitting_helps_on_events_it_never_saw() -> None:
    noisy = np.hstack([FEATURES, np.random.default_rng(1).normal(size=(150, 12))])
    held_out = np.arange(0, 150, 4)
    data = replace(
        prepare(STREAM, noisy, seed=0, judged=30),
        domains=np.zeros(150, dtype=np.intp),  # W starts from principal coordinates, noise among them
        held_out=held_out,
        train=np.setdiff1d(np.arange(150), held_out),
    )
    phi, history = fit_phi(
        data,
        gamma=0.97,
        seed=0,
        settings=Stage1Settings(rank=9, steps=40, rate=1e-2),
        episodes=EpisodeSettings(length=100, min_peers=3, max_peers=3),
    )
    assert min(held for _, _, held in history) < history[0][2] - 0.005
    assert phi.rank == 9


def test_the_reading_starts_from_likeness_alone() -> None:
    readouts = [
        torch.randn(400, seats, 4, generator=torch.Generator().manual_seed(seats)) for seats in (2, 3)
    ]
    w = start_reading(readouts)
    assert (w[:-1] == 0).all()
    spread = torch.cat([(r @ torch.from_numpy(w).float()).std(dim=1) for r in readouts]).mean()
    assert abs(float(spread) - 1.0) < 1e-3
