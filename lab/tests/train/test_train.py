"""Learning through a tiny frozen model: start, gradients, resume, checkpoint."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from sigma_lab.train import SteeringSettings, TrainedSteering, train_steering
from sigma_lab.train.data import EpisodeSettings, prepare
from sigma_lab.train.learner import Learner, mean_gradient
from sigma_lab.train.phi import Stage1Settings, fit_phi
from sigma_lab.train.run import Check, RunSettings, SteeringRun
from sigma_mem.center.center import Center
from sigma_mem.center.errors import CheckpointError, SteeringMismatchError
from sigma_mem.center.load import torch_threads
from sigma_mem.center.phi import PhiMap
from sigma_mem.center.project import Steering
from sigma_mem.errors import InputError

from .tiny import tiny_center, tiny_features, tiny_stream

STREAM = tiny_stream(60, peers=3)
FEATURES = tiny_features(STREAM)
EPISODES = EpisodeSettings(length=50, max_peers=3)
RUN = RunSettings(steps=6, margin_steps=2, rows=6, check_every=3, check_rows=12, save_every=2, patience=9)
SETTINGS = SteeringSettings(
    judged=30, gamma=0.97, cap=0.5, episodes=EPISODES, phi=Stage1Settings(steps=10), run=RUN
)


@pytest.fixture(scope="module")
def center(tmp_path_factory: pytest.TempPathFactory) -> Center:
    return tiny_center(cache=tmp_path_factory.mktemp("states"))


@pytest.fixture(scope="module")
def learned(center: Center) -> TrainedSteering:
    return train_steering(STREAM, FEATURES, center, encoder="noise", settings=SETTINGS)


def learner_of(center: Center, reading: float = 1.0) -> Learner:
    data = prepare(STREAM, FEATURES, seed=0, judged=30)
    phi, _ = fit_phi(data, gamma=0.97, seed=0, settings=Stage1Settings(steps=0))
    learner = Learner(center, data, phi, gamma=0.97, cap=0.5)
    learner.start(np.full(phi.rank, reading), mean_gradient(center, [("1+1?", "2"), ("2+2?", "5")]))
    return learner


def run_of(center: Center, about: dict[str, object] | None = None) -> SteeringRun:
    return SteeringRun(learner_of(center), EPISODES, RUN, 0, dict(about or {"model": "tiny"}))


def test_the_start_is_the_base_judge_bit_for_bit(center: Center) -> None:
    run = run_of(center)
    with torch.no_grad():
        run.learner.log_temperature.zero_()
    episode, at = run._held[0]
    with torch.no_grad():
        _, utility, _ = run.learner.losses(episode, at)
    pairs = run.learner.data.pairs(episode, at)
    base = center.judge_pairs(pairs).utility.reshape(utility.shape)
    np.testing.assert_array_equal(utility.detach().double().numpy(), base)


def test_exactly_one_of_gain_and_projection_starts_at_zero(center: Center) -> None:
    learner = learner_of(center)
    assert learner.steering.gain == 0
    assert learner.steering.projection.abs().sum() > 0
    run = run_of(center)
    run._loss(*run._drawn_to_learn(2, 0)).backward()  # type: ignore[no-untyped-call]
    gain, projection = run.learner.steering.gain.grad, run.learner.steering.projection.grad
    assert gain is not None
    assert gain != 0
    assert projection is not None
    assert (projection == 0).all()


def test_with_both_at_zero_nothing_could_be_learned(center: Center) -> None:
    run = SteeringRun(learner_of(center, reading=0.0), EPISODES, RUN, 0, {})
    run._loss(*run._drawn_to_learn(2, 0)).backward()  # type: ignore[no-untyped-call]
    assert run.learner.steering.gain.grad == 0


def test_the_gradient_reaches_w_through_the_memory(center: Center) -> None:
    run = run_of(center)
    with torch.no_grad():
        run.learner.steering.gain.fill_(0.05)
    drawn = run._drawn_to_learn(2, 0)
    run._loss(*drawn).backward()  # type: ignore[no-untyped-call]
    weight = run.learner.weight
    assert weight.grad is not None
    place = int(weight.grad.abs().argmax())
    losses = []
    for step in (1e-2, -1e-2):
        with torch.no_grad():
            weight.view(-1)[place] += step
            losses.append(run._loss(*drawn).item())
            weight.view(-1)[place] -= step
    slope = (losses[0] - losses[1]) / 2e-2
    assert slope == pytest.approx(weight.grad.view(-1)[place].item(), rel=0.05)


def test_training_lowers_the_held_out_loss(learned: TrainedSteering) -> None:
    first, best = learned.checks[0], min(check.held_loss for check in learned.checks)
    assert best < first.held_loss - 1e-3
    assert {check.stage for check in learned.checks} == {2, 3}
    assert float(learned.steering.gain) > 0


def test_the_reported_check_is_that_of_the_values_kept(learned: TrainedSteering) -> None:
    assert learned.saved in learned.checks
    assert learned.saved.gain == pytest.approx(float(learned.steering.gain), rel=1e-6)


def test_a_lower_loss_that_was_not_kept_is_not_reported(
    center: Center, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The base judge, the gain found, better, better by next to nothing, and again at the start of stage 3.
    held = iter([0.1, 0.9, 0.89, 0.88995, 0.89])
    run = SteeringRun(learner_of(center), EPISODES, replace(RUN, steps=6, margin_steps=0), 0, {})
    right = torch.tensor([[True, False]])
    monkeypatch.setattr(run, "_held", run._held[:1])
    monkeypatch.setattr(run.learner, "losses", lambda *_: (torch.tensor([next(held)]), right.float(), right))
    run.go()
    assert run.best is not None
    assert (run.checks[run.best].step, run.checks[run.best].held_loss) == (3, pytest.approx(0.89))


class Killed(Exception):
    pass


@pytest.mark.parametrize("kill_at", [(2, 3), (3, 1)])
def test_a_killed_run_resumes_to_the_same_end(
    center: Center, tmp_path: Path, kill_at: tuple[int, int]
) -> None:
    whole, file = run_of(center), tmp_path / "run.safetensors"
    whole.go()

    def kill(run: SteeringRun) -> None:
        if (run.stage, run.step) == kill_at:
            raise Killed

    first = run_of(center)
    with pytest.raises(Killed):
        first.go(file, kill)
    second = run_of(center)
    second.resume(file)
    assert (second.stage, second.step) != (2, 0)
    second.go(file)
    assert second.checks == whole.checks
    for name, value in whole._named.items():
        assert torch.equal(value, second._named[name]), name


def test_a_run_of_another_model_or_stream_is_not_resumed(center: Center, tmp_path: Path) -> None:
    run_of(center).save(tmp_path / "run")
    with pytest.raises(CheckpointError, match="model = 'tiny', expected 'other'"):
        run_of(center, {"model": "other"}).resume(tmp_path / "run")


def test_equal_seeds_give_equal_checkpoints(center: Center, learned: TrainedSteering) -> None:
    """Bit for bit, however many threads torch had before."""
    with torch_threads(2):
        again = train_steering(STREAM, FEATURES, center, encoder="noise", settings=SETTINGS)
        assert torch.get_num_threads() == 2
    saved, other_saved = learned.steering.state_dict(), again.steering.state_dict()
    for name, value in {**saved, **learned.steering.beside}.items():
        assert torch.equal(value, {**other_saved, **again.steering.beside}[name]), name
    assert again.checks == learned.checks
    other = train_steering(STREAM, FEATURES, center, encoder="noise", settings=replace(SETTINGS, seed=1))
    assert not torch.equal(other.steering.projection, learned.steering.projection)


def test_the_checkpoint_names_model_stream_and_settings(
    learned: TrainedSteering, center: Center, tmp_path: Path
) -> None:
    learned.steering.save(tmp_path / "s.safetensors")
    back = Steering.load(tmp_path / "s.safetensors")
    details = back.info.details
    assert back.info.model == center.name
    assert details["stream_sha256"] == STREAM.sha256
    assert details["settings"]["gamma"] == 0.97
    assert details["prompt"]["question_tokens"] == 16
    phi = PhiMap.from_arrays({name: value.numpy() for name, value in back.beside.items()})
    assert phi.rank == back.rank
    np.testing.assert_allclose(np.linalg.norm(phi(FEATURES), axis=1), 1.0)
    json.dumps(details)


def test_a_checkpoint_for_another_model_is_one_clear_error(learned: TrainedSteering, tmp_path: Path) -> None:
    learned.steering.save(tmp_path / "s.safetensors")
    with pytest.raises(SteeringMismatchError, match="learned for tiny-0"):
        tiny_center(seed=1).use(tmp_path / "s.safetensors")
    with pytest.raises(
        SteeringMismatchError, match="hidden size 32, but the center is tiny-0 of hidden size 48"
    ):
        tiny_center(width=48).use(tmp_path / "s.safetensors")


def test_fast_is_the_steered_judge_to_first_order(learned: TrainedSteering, center: Center) -> None:
    steering, pairs = learned.steering, [("1+1?", "2"), ("aaa 7", "right"), ("bbb", "wrong 1")]
    readouts = 1e-3 * np.random.default_rng(0).normal(size=(3, steering.rank))
    center.use(steering)
    try:
        moved = center.judge_pairs(pairs, readouts).utility - center.judge_pairs(pairs).utility
    finally:
        center.use(None)
    predicted = readouts @ steering.beside["fast"].numpy()
    assert np.corrcoef(moved, predicted)[0, 1] > 0.9


def test_streams_that_teach_nothing_are_refused() -> None:
    alike = replace(
        STREAM, events=tuple(replace(e, correct=dict.fromkeys(STREAM.peers, 1.0)) for e in STREAM)
    )
    with pytest.raises(InputError, match="all right or all wrong at every event"):
        prepare(alike, FEATURES, seed=0, judged=3)
    with pytest.raises(InputError, match="at least 10 events"):
        prepare(STREAM.select(limit=5), FEATURES[:5], seed=0, judged=3)


def test_enough_steps_read_every_event_that_is_not_held_out(center: Center) -> None:
    def events(steps: int) -> Mapping[str, int]:
        run = replace(RUN, steps=steps, margin_steps=0, check_every=50, patience=99)
        settings = replace(SETTINGS, judged=None, run=run, phi=Stage1Settings(steps=0))
        return train_steering(STREAM, FEATURES, center, encoder="noise", settings=settings).events

    few, many = events(1), events(25)
    assert few["stream"] == many["stream"] == len(STREAM)
    assert few["to_read"] == many["to_read"] == len(STREAM) - few["held_out"]
    assert few["read"] < many["read"]
    assert many["read"] >= 0.8 * many["to_read"]


def test_a_checkpoint_that_is_worse_than_the_base_judge_is_named() -> None:
    base, better, worse = (Check(2, 0, 1.0, loss, 0.5, 0.0) for loss in (1.0, 0.9, 1.1))
    for kept, is_worse in ((better, False), (worse, True)):
        trained = TrainedSteering(None, [], (base, kept), kept, {})  # type: ignore[arg-type]
        assert trained.is_worse_than_base is is_worse
