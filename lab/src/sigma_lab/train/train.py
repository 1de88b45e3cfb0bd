"""Learn W, P and g of a steering from a recorded stream, through a frozen center (`train steering`)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sigma_lab.train.data import EpisodeSettings, TrainingStream, prepare
from sigma_lab.train.learner import Learner, mean_gradient, start_reading
from sigma_lab.train.phi import History, Stage1Settings, fit_phi
from sigma_lab.train.run import Check, RunSettings, SteeringRun
from sigma_mem.center.center import Center
from sigma_mem.center.load import torch_threads
from sigma_mem.center.phi import PhiMap
from sigma_mem.center.project import Steering, SteeringInfo
from sigma_mem.events import FloatArray
from sigma_mem.streams import Stream

Report = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class SteeringSettings:
    """Everything that training depends on, apart from the model and the stream.

    With one thread, equal seeds give equal checkpoints and a killed run resumes exactly, bit for bit; with
    more, a large model on a CPU is faster and the results are equal to rounding only.
    """

    seed: int = 0
    judged: int | None = None  # most events that the language model reads, apart from the held-out
    # by default; the memory is written from the whole stream in any case
    gamma: float = 0.9995  # γ of the memory that will be read; η is 1 − γ
    cap: float = 0.03  # longest δ, in median hidden norms
    threads: int = 1  # of torch
    episodes: EpisodeSettings = field(default_factory=EpisodeSettings)
    phi: Stage1Settings = field(default_factory=Stage1Settings)
    run: RunSettings = field(default_factory=RunSettings)


@dataclass(frozen=True, slots=True)
class TrainedSteering:
    """A learned steering with its φ and w, and how it went."""

    steering: Steering
    phi_history: History  # of stage 1
    checks: tuple[Check, ...]  # every evaluation on held-out events in stages 2 and 3
    saved: Check  # the evaluation of the values that were kept: those of `steering`
    events: Mapping[str, int]  # of the stream: written to the memory, held out, read by the language model

    @property
    def is_worse_than_base(self) -> bool:
        """Whether the values that were kept predict held-out events worse than the base judge does."""
        return self.saved.held_loss > self.checks[0].held_loss


def train_steering(
    stream: Stream,
    features: FloatArray,
    center: Center,
    *,
    encoder: str,
    settings: SteeringSettings | None = None,
    run_file: Path | None = None,
    report: Report = lambda what, done, total: None,
) -> TrainedSteering:
    """Learn a steering; its checkpoint is ``trained.steering.save(path)``.

    The stream has training events in the order of the memory, never the ones that will be scored;
    ``features`` (N, D) are those of its questions, by the source named ``encoder``. The run is saved to
    ``run_file`` every few steps. If the file is there, the run continues from it; it must be of the same
    model, stream and settings.
    """
    settings = settings or SteeringSettings()
    data = prepare(stream, features, seed=settings.seed, judged=settings.judged)
    about = _about(stream, center, encoder, settings)
    with torch_threads(settings.threads):
        report("stage 1: φ without the language model", 0, 1)
        phi, history = fit_phi(
            data, gamma=settings.gamma, seed=settings.seed, settings=settings.phi, episodes=settings.episodes
        )
        learner = _learner(center, data, phi, settings)
        run = SteeringRun(learner, settings.episodes, settings.run, settings.seed, about)
        if run_file is not None and run_file.exists():
            run.resume(run_file)
        report("stage 2: the base judge, and a gain to begin with", 0, 1)
        run.go(run_file, partial(_say, report))
        saved = run.checks[-1 if run.best is None else run.best]
        events = {
            "stream": len(stream),
            "held_out": len(data.held_out),
            "to_read": len(data.judged),
            "read": run.read,
        }
        done = _finished(learner, run, {**about, "read": events})
        return TrainedSteering(done, history, tuple(run.checks), saved, events)


def _learner(center: Center, data: TrainingStream, phi: PhiMap, settings: SteeringSettings) -> Learner:
    """A learner at the base judge: P = u·wᵀ and g = 0."""
    learner = Learner(center, data, phi, gamma=settings.gamma, cap=settings.cap)
    episodes = [data.draw(data.train, settings.episodes, settings.seed, 2, i) for i in range(8)]
    with torch.no_grad():
        readouts = [learner.readouts(e, e.contested(len(e.events) // 4)) for e in episodes]
    learner.start(start_reading(readouts), mean_gradient(center, _some_pairs(data)))
    return learner


def _some_pairs(data: TrainingStream, n: int = 12) -> list[tuple[str, str, str]]:
    """A few answered questions, one answer each."""
    pairs = (
        (data.questions[event], *next(((a, p) for a, p in zip(row, data.names, strict=True) if a), ("", "")))
        for event in data.judged.tolist()
        for row in (data.answers[event],)
    )
    return [pair for pair in pairs if pair[1]][:n]


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


def _finished(learner: Learner, run: SteeringRun, about: dict[str, Any]) -> Steering:
    """The steering with its φ, the fast read's w, and where it all comes from."""
    steering, center = learner.steering, learner.center
    steering.requires_grad_(False)
    slope = mean_gradient(center, _some_pairs(learner.data))
    # To first order U(δ) = U(0) + slope·δ, so the fast read is U_p + wᵀM_pφ with this w.
    fast = steering.gain * steering.h_median * (steering.projection.T @ slope.to(steering.projection))
    arrays = {name: torch.from_numpy(np.array(value)) for name, value in learner.phi.arrays().items()}
    steering.beside = {**arrays, "fast": fast.detach().double()}
    steering.info = SteeringInfo(
        model=center.name,
        fingerprint=center.fingerprint,
        encoder=str(about["encoder"]),
        prompt=center.writer.prompt.version,
        first=center.first,
        last=center.last,
        details={**about, "held_out": [asdict(check) for check in run.checks], "kept": run.best},
    )
    return steering


def _say(report: Report, run: SteeringRun) -> None:
    last = run.checks[-1]
    held = f"held-out loss {last.held_loss:.4f}, accuracy {last.held_accuracy:.3f}, g {last.gain:.4f}"
    report(f"stage {run.stage}: {held}", run.step, run.limit)
