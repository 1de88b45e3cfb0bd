"""Learn W, P and g of a steering from a recorded stream, through a frozen center (`train steering`)."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sigma_mem.center.center import Center
from sigma_mem.center.project import Steering, SteeringInfo
from sigma_mem.events import FloatArray
from sigma_mem.streams import Stream
from sigma_mem.train.episodes import EpisodeSettings
from sigma_mem.train.steering_data import TrainingStream, prepared
from sigma_mem.train.steering_learner import Learner, mean_gradient
from sigma_mem.train.steering_phi import PhiFit, PhiSettings, fit_phi
from sigma_mem.train.steering_reading import drawn_among, start_reading
from sigma_mem.train.steering_run import Check, RunSettings, SteeringRun

__all__ = ["Learned", "SteeringSettings", "train_steering"]


@dataclass(frozen=True, slots=True)
class SteeringSettings:
    """Everything that training depends on, beside the model and the stream.

    Attributes
    ----------
    judged : int
        Events that the language model reads; the memory is written from the whole stream.
    gamma : float
        γ of the memory that will be read; η is 1 − γ.
    cap : float
        Longest δ, in median hidden norms.
    """

    seed: int = 0
    judged: int = 200
    gamma: float = 0.9995
    cap: float = 0.03
    episodes: EpisodeSettings = field(default_factory=EpisodeSettings)
    phi: PhiSettings = field(default_factory=PhiSettings)
    run: RunSettings = field(default_factory=RunSettings)


@dataclass(frozen=True, slots=True)
class Learned:
    """A learned steering with φ and w beside it, and how it went."""

    steering: Steering
    phi_history: tuple[tuple[int, float, float], ...]
    checks: tuple[Check, ...]


def train_steering(
    stream: Stream,
    features: FloatArray,
    center: Center,
    *,
    encoder: str,
    settings: SteeringSettings | None = None,
    run_file: Path | None = None,
    report: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> Learned:
    """Learn a steering; its checkpoint is ``learned.steering.save(path)``.

    Parameters
    ----------
    stream
        Training events in the order of the memory; never the ones that will be scored.
    features : (N, D)
        Of the questions, by the source named ``encoder``.
    run_file
        Where the run is saved every few steps. If the file is there, the run continues from it; it must
        be of the same model, stream and settings.
    report
        Called with (what, done, total).
    """
    settings = settings or SteeringSettings()
    data = prepared(stream, features, seed=settings.seed, judged=settings.judged)
    report("stage 1: φ without the language model", 0, 1)
    fit = fit_phi(
        data.features,
        data.labels,
        data.domains,
        data.held_out,
        gamma=settings.gamma,
        seed=settings.seed,
        settings=settings.phi,
        episodes=settings.episodes,
    )
    learner = _start(center, data, fit, settings)
    about = _about(stream, center, encoder, settings)
    run = SteeringRun(learner, settings.episodes, settings.run, settings.seed, about)
    if run_file is not None and run_file.exists():
        run.resume(run_file)
    report("stage 2: the base judge, and a gain to begin with", 0, 1)
    run.go(run_file, lambda now: _say(now, report))
    return Learned(_finished(learner, data, run, about), fit.history, tuple(run.checks))


def _start(center: Center, data: TrainingStream, fit: PhiFit, settings: SteeringSettings) -> Learner:
    """A learner at the base judge: P = u·wᵀ and g = 0."""
    blank = np.zeros(fit.phi.rank)
    direction = mean_gradient(center, _some_pairs(data))
    options: dict[str, Any] = {"gamma": settings.gamma, "cap": settings.cap}
    probe = Learner(center, data, fit.phi, blank, direction, **options)
    readouts: list[Tensor] = []
    with torch.no_grad():
        for i in range(8):
            among = (data.labels, data.domains, data.train, settings.episodes)
            episode = drawn_among(*among, settings.seed, 2, i)
            at = episode.contested(len(episode.events) // 4)
            readouts.append(probe.readouts(episode, at))
    return Learner(center, data, fit.phi, start_reading(readouts), direction, **options)


def _some_pairs(data: TrainingStream, n: int = 12) -> list[tuple[str, str]]:
    """A few answered questions, one answer each."""
    pairs = [
        (data.questions[event], text)
        for event in data.judged.tolist()
        for text in [next((a for a in data.answers[event] if a), "")]
        if text
    ]
    return pairs[:n]


def _about(stream: Stream, center: Center, encoder: str, settings: SteeringSettings) -> dict[str, Any]:
    about = {
        "model": center.name,
        "fingerprint": center.fingerprint,
        "encoder": encoder,
        "prompt": asdict(center.writer.prompt),
        "scope": center.scope,
        "blocks": [center.first, center.last],
        "stream": stream.name,
        "stream_sha256": stream.sha256,
        "events": len(stream),
        "peers": list(stream.peers),
        "settings": asdict(settings),
    }
    plain: dict[str, Any] = json.loads(json.dumps(about))
    return plain


def _finished(learner: Learner, data: TrainingStream, run: SteeringRun, about: dict[str, Any]) -> Steering:
    """The steering with its φ, the fast read's w, and where it all comes from."""
    steering, center = learner.steering, learner.center
    steering.requires_grad_(False)
    slope = mean_gradient(center, _some_pairs(data))
    # To first order U(δ) = U(0) + slope·δ, so the fast read is U_p + wᵀM_pφ with this w.
    fast = steering.gain * steering.h_median * (steering.projection.T @ slope.to(steering.projection))
    arrays = {name: torch.from_numpy(np.array(value)) for name, value in learner.phi.arrays().items()}
    steering.beside = {**arrays, "fast": fast.detach().double()}
    extra = {**about, "held_out": [asdict(check) for check in run.checks]}
    steering.info = replace(
        SteeringInfo(),
        model=center.name,
        fingerprint=center.fingerprint,
        encoder=str(about["encoder"]),
        prompt=center.writer.prompt.version,
        first=center.first,
        last=center.last,
        extra=json.dumps(extra),
    )
    return steering


def _say(run: SteeringRun, report: Callable[[str, int, int], None]) -> None:
    total = run.settings.steps if run.stage == 2 else run.settings.margin_steps
    last = run.checks[-1]
    report(
        f"stage {run.stage}: held-out loss {last.held_loss:.4f}, "
        f"accuracy {last.held_accuracy:.3f}, g {last.gain:.4f}",
        run.step,
        total,
    )
