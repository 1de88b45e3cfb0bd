"""g before the first gradient step."""

import pytest
import torch

from sigma_lab.train.learner import judge_weight
from sigma_lab.train.objective import best_slope
from sigma_mem.center.center import Center

from .test_train import run_of
from .tiny import tiny_center


@pytest.fixture(scope="module")
def center() -> Center:
    return tiny_center()


def test_the_first_move_gives_the_memory_the_weight_it_deserves(center: Center) -> None:
    run = run_of(center)
    with torch.no_grad():
        run.learner.steering.projection.mul_(1e-3)  # so that no shift comes near the cap
        run.learner.lift.mul_(1e-3)
    run._find_gain()
    gain, temperature = run.learner.steering.gain.item(), run.learner.log_temperature.exp().item()
    assert gain > 0
    assert run.gain_unit == pytest.approx(gain)
    episode, at = run._drawn(run.learner.data.train, run.learner.data.train, 90, 7, 0)
    with torch.no_grad():
        readouts = run.learner.readouts(episode, at)
        moved = run.learner.utility(episode, at, readouts) - run.learner.utility(episode, at, 0 * readouts)
    said = gain / temperature * (readouts @ run.learner.lift)
    assert torch.corrcoef(torch.stack([moved.flatten(), said.flatten()]))[0, 1] > 0.95
    slope, _ = best_slope([(said, torch.from_numpy(episode.labels[at] > 0))])
    assert 0.5 < slope < 2  # log-odds as they are


def test_the_gain_stays_where_the_cap_does_not_bind(center: Center) -> None:
    run = run_of(center)
    with torch.no_grad():
        run.learner.steering.projection.mul_(1e6)  # a direction that hardly moves U for its length
    run._find_gain()
    episode, at = run._drawn(run.learner.data.train, run.learner.data.train, 90, 7, 0)
    with torch.no_grad():
        shifts = run.learner.steering(run.learner.readouts(episode, at).flatten(0, 1)).norm(dim=1)
    assert 0 < shifts.quantile(0.9) < 0.95 * 0.5 * center.h_median


def test_a_judge_has_to_earn_its_weight() -> None:
    rng = torch.Generator().manual_seed(0)
    first = torch.rand(60, generator=rng) < 0.5
    right, nothing = torch.stack([first, ~first], dim=1), torch.zeros(60, 2)
    noise = torch.randn(60, 2, generator=rng)
    assert judge_weight([(3.0 * noise, nothing, right)]) < 0.2  # loud and blind
    assert judge_weight([(0.01 * noise, nothing, right)]) < 0.2  # too quiet to tell
    knowing = right.float() * 2.0 + 0.2 * noise
    assert judge_weight([(knowing, nothing, right)]) > 0.9
