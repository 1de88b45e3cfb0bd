"""Stages 2 and 3: gradient steps through the frozen model, with early stop and exact resume.

Learning begins at the base judge, g = 0; its first move sets g (`deserved_gain`), and gradient steps go on
from there.

Every random draw is seeded by (seed, stage, step), so a run that was killed and resumed takes the
same steps as one that was not.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sigma_lab.train.data import Episode, EpisodeSettings, IntArray
from sigma_lab.train.learner import Learner, deserved_gain, right_at
from sigma_lab.train.objective import listwise, margin, pointwise
from sigma_mem.center.checkpoint import read_arrays, write_arrays
from sigma_mem.center.errors import CheckpointError
from sigma_mem.errors import InputError

_FORMAT = "sigma-mem steering run 1"
_WHERE = ("stage", "step", "waited", "gain_unit", "best")  # fields of a run that are saved as they are
_MANY = 2048  # readouts by which the memory alone is weighed, in each of eight draws


@dataclass(frozen=True, slots=True)
class RunSettings:
    """How stages 2 and 3 run."""

    steps: int = 100  # at most, of stage 2
    margin_steps: int = 20  # at most, of stage 3
    rows: int = 12  # prompts per step: as many events as fit
    gain_draws: int = 12  # draws of `rows` prompts by which the judge's own U is weighed before g is set
    rate_gain: float = 0.01  # Adam's learning rates; this one is in units of the gain found
    rate_projection: float = 1e-3
    rate_phi: float = 1e-4
    rate_temperature: float = 0.03
    pointwise: float = 0.1  # weight of the pointwise term
    width: float = 0.1  # margin of stage 3, in nats of the listwise loss
    check_every: int = 10  # steps between evaluations on held-out events
    check_rows: int = 96  # prompts that an evaluation costs
    patience: int = 3  # evaluations without progress that end a stage
    save_every: int = 10  # steps between saves of the run


@dataclass(frozen=True, slots=True)
class Check:
    """One evaluation on held-out events: losses, accuracy of the highest U, and g."""

    stage: int
    step: int
    train_loss: float
    held_loss: float
    held_accuracy: float
    gain: float


@dataclass
class SteeringRun:
    """A run under way: the learner, its optimiser, and where it stands.

    ``best`` is the place in ``checks`` of the values that the learner is left with at the end.
    """

    learner: Learner
    episodes: EpisodeSettings
    settings: RunSettings
    seed: int
    about: dict[str, Any]
    stage: int = 2
    step: int = 0
    waited: int = 0
    gain_unit: float = 1.0
    best: int | None = None
    checks: list[Check] = field(default_factory=list)

    def __post_init__(self) -> None:
        s, learner = self.settings, self.learner
        learned = {
            "gain": (learner.steering.gain, s.rate_gain * self.gain_unit),
            "projection": (learner.steering.projection, s.rate_projection),
            "weight": (learner.weight, s.rate_phi),
            "log_temperature": (learner.log_temperature, s.rate_temperature),
        }
        self._named = {name: value for name, (value, _) in learned.items()}
        groups = [{"params": [value], "lr": rate} for value, rate in learned.values()]
        self._adam = torch.optim.Adam(groups, betas=(0.9, 0.98))
        self._best_values = self._values()
        self._recent: list[float] = []
        self.seen: IntArray = np.zeros(len(learner.data.labels), dtype=np.intp)
        # Held-out events in memories of all events: as long as those that will be read.
        data, share = learner.data, max(s.check_rows // 4, 1)
        everything = np.arange(len(data.labels))
        self._held = [self._drawn(everything, data.held_out, share, 9, i) for i in range(4)]

    @property
    def limit(self) -> int:
        """At most this many steps in the present stage."""
        return self.settings.steps if self.stage == 2 else self.settings.margin_steps

    def go(self, path: Path | None = None, report: Callable[[SteeringRun], None] = lambda _: None) -> None:
        """Take all steps that are left; leave the best values found in the learner.

        The run is saved to ``path`` every so often, if there is one; ``report`` is called after every step.
        """
        while self.stage < 4:
            if self.step % self.settings.check_every == 0:
                self._look()
                if (self.stage, self.step) == (2, 0):
                    self._find_gain()
                    self.best = None  # a few held-out events cannot show whether the memory helps
                    self._look()
            if self.step >= self.limit or self.waited >= self.settings.patience:
                self._next_stage()
                continue
            loss = self._loss(*self._drawn_to_learn(self.stage, self.step))
            self._adam.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            self._adam.step()
            self._recent.append(loss.item())
            self.step += 1
            if path is not None and self.step % self.settings.save_every == 0:
                self.save(path)
            report(self)

    def _loss(self, episode: Episode, at: IntArray) -> Tensor:
        learner = self.learner
        readouts = learner.readouts(episode, at)
        utility = learner.utility(episode, at, readouts)
        right = right_at(episode, at)
        kept = listwise(utility, right)
        loss = (kept + self.settings.pointwise * pointwise(utility, right)).mean()
        if self.stage == 3:
            swapped = listwise(learner.utility(episode, at, readouts.roll(1, dims=1)), right)
            with torch.no_grad():
                empty = listwise(learner.utility(episode, at, torch.zeros_like(readouts)), right)
            for other in (swapped, empty):
                loss = loss + margin(kept, other, self.settings.width).mean()
        return loss

    def _drawn_to_learn(self, *seed: int) -> tuple[Episode, IntArray]:
        """Events that the language model read least often come first, so that enough steps read all."""
        data = self.learner.data
        episode, at = self._drawn(data.train, data.judged, self.settings.rows, *seed, seen=self.seen)
        self.seen[episode.events[at]] += 1
        return episode, at

    @property
    def read(self) -> int:
        """How many events the language model has read to learn from."""
        return int((self.seen > 0).sum())

    def _drawn(
        self,
        among: IntArray,
        judged: IntArray,
        rows: int,
        *seed: int,
        seen: IntArray | None = None,
    ) -> tuple[Episode, IntArray]:
        """An episode drawn from some events, and the places at which the language model judges."""
        for attempt in range(100):
            episode = self.learner.data.draw(among, self.episodes, self.seed, *seed, attempt)
            places = episode.contested(len(episode.events) // 4, judged)
            if len(places):
                break
        else:
            raise InputError(
                "100 episodes held no judged event on which peers differ; "
                "let the language model read more events"
            )
        rng = np.random.default_rng((self.seed, *seed, 99))
        n = max(rows // episode.labels.shape[1], 1)
        drawn = rng.permutation(places)
        if seen is not None:
            drawn = drawn[np.argsort(seen[episode.events[drawn]], kind="stable")]
        return episode, np.sort(drawn[:n])

    def _find_gain(self) -> None:
        """Set g and the temperature to what memory and judge deserve."""
        learner, train = self.learner, self.learner.data.train
        judged = [self._drawn_to_learn(8, i) for i in range(self.settings.gain_draws)]
        many = [self._drawn(train, train, _MANY, 7, i) for i in range(8)]
        gain, log_temperature = deserved_gain(learner, judged, many)
        with torch.no_grad():
            learner.steering.gain.fill_(gain)
            learner.log_temperature.fill_(log_temperature)
        self._use_gain_unit(gain)

    def _use_gain_unit(self, unit: float) -> None:
        self.gain_unit = unit
        self._adam.param_groups[list(self._named).index("gain")]["lr"] = self.settings.rate_gain * unit

    @torch.no_grad()
    def _look(self) -> None:
        losses, hits = [], []
        for episode, at in self._held:
            loss, utility, right = self.learner.losses(episode, at)
            losses.append(loss)
            hits.append(right.gather(1, utility.argmax(dim=1, keepdim=True)).float())
        held = float(torch.cat(losses).mean())
        train = float(np.mean(self._recent)) if self._recent else held
        self._recent = []
        gain = float(self.learner.steering.gain)
        self.checks.append(Check(self.stage, self.step, train, held, float(torch.cat(hits).mean()), gain))
        improved = self.best is None or held < self.checks[self.best].held_loss - 1e-4
        self.waited = 0 if improved else self.waited + 1
        if improved:
            self.best, self._best_values = len(self.checks) - 1, self._values()

    def _next_stage(self) -> None:
        if self.step % self.settings.check_every:
            self._look()
        self._restore(self._best_values)
        self.stage, self.step = self.stage + 1, 0
        self.waited = -1  # the first evaluation of a stage sees the best values again: no lack of progress

    def _values(self) -> dict[str, Tensor]:
        return {name: value.detach().clone() for name, value in self._named.items()}

    def _restore(self, values: dict[str, Tensor]) -> None:
        with torch.no_grad():
            for name, value in self._named.items():
                value.copy_(values[name])

    def save(self, path: Path) -> None:
        """Write everything that the next step depends on."""
        arrays: dict[str, NDArray[Any]] = {
            "recent": np.array(self._recent, dtype=np.float64),
            "seen": self.seen,
        }
        for name, value in self._named.items():
            arrays[f"now.{name}"] = value.detach().numpy()
            arrays[f"best.{name}"] = self._best_values[name].numpy()
            for key, moment in self._adam.state[value].items():
                arrays[f"adam.{name}.{key}"] = moment.numpy()
        where = {name: getattr(self, name) for name in _WHERE}
        where["checks"] = [[getattr(check, name) for name in Check.__slots__] for check in self.checks]
        write_arrays(path, arrays, {"format": _FORMAT, "about": json.dumps({**self.about, "where": where})})

    def resume(self, path: Path) -> None:
        """Continue where the saved run stood; raises CheckpointError if it was another run."""
        arrays, meta = read_arrays(path, "saved run", "sigma-mem train steering", form=_FORMAT)
        about = json.loads(meta["about"])
        _check_same_run(about, self.about)
        tensors = {name: torch.from_numpy(value) for name, value in arrays.items()}
        self._restore({name: tensors[f"now.{name}"] for name in self._named})
        self._best_values = {name: tensors[f"best.{name}"] for name in self._named}
        for name, value in self._named.items():
            prefix = f"adam.{name}."
            found = {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
            if found:
                self._adam.state[value] = found
        self._recent = arrays["recent"].tolist()
        self.seen = arrays["seen"].copy()
        where = about["where"]
        for name in _WHERE:
            setattr(self, name, where[name])
        self._use_gain_unit(self.gain_unit)
        self.checks = [Check(*values) for values in where["checks"]]


def _check_same_run(found: Mapping[str, Any], expected: Mapping[str, Any], prefix: str = "") -> None:
    """Raise CheckpointError that names the first setting by which two runs differ."""
    for name, value in expected.items():
        if isinstance(value, Mapping) and value and isinstance(found.get(name), Mapping):
            _check_same_run(found[name], value, f"{prefix}{name}.")
        elif found.get(name) != value:
            raise CheckpointError(
                f"the saved run has {prefix}{name} = {found.get(name)!r}, expected {value!r}; "
                "use the setting it was made with, or delete the file to start again"
            )
