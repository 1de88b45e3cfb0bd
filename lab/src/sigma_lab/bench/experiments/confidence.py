"""Whether the confidence can be believed: calibration, sharpness, and what `min_confidence` answers.

Real sessions are played, one event after the other, by `vote` and by `decide`. What is scored was claimed
before any label of its event was shown.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sigma_lab.bench import figures
from sigma_lab.bench.forecast import Forecast
from sigma_lab.bench.league import DEFAULT, Setup
from sigma_lab.bench.play import MemoryPlayer, play
from sigma_lab.bench.row import Present, has_answers, successes
from sigma_lab.bench.table import Grid, Table
from sigma_lab.reveal import Share
from sigma_mem.decide.read import NOBODY
from sigma_mem.events import Event, FloatArray
from sigma_mem.session import SigmaMem
from sigma_mem.streams import Stream

WARM_UP = 200  # events that are not scored; in a stream of less than twice as many, its first half
TOLERANCE = 0.01  # above the ECE of a perfect forecaster

Verb = Literal["vote", "decide"]

_ROUTE = "route"  # its claim is p̂ of the peer it chooses


@dataclass(frozen=True, slots=True)
class Claim:
    """What one kind of decision claimed at every scored event, and where it chose to answer."""

    forecast: Forecast
    answered: NDArray[np.bool_] | None = None  # with `min_confidence`; None where there is no such choice

    @property
    def coverage(self) -> float | None:
        """Share of events that were answered."""
        return None if self.answered is None else float(self.answered.mean())

    @property
    def precision(self) -> float | None:
        """Share of the answers given that were right; None where there are none."""
        if self.answered is None or not self.answered.any():
            return None
        return float(self.forecast.right[self.answered].mean())


@dataclass(frozen=True, kw_only=True)
class ConfidenceTable(Table):
    """Claims by the name of their row."""

    title = "Confidence"

    claims: Mapping[str, Claim]
    share: float  # of events that are labelled
    target: float  # the `min_confidence` asked for
    after: int  # events before the first one that is scored
    seed: int

    def results(self) -> dict[str, Any]:
        """Every figure of every claim."""
        about = {"share": self.share, "min_confidence": self.target, "after": self.after}
        return {**about, "claims": {name: self._values(claim) for name, claim in self.claims.items()}}

    def _values(self, claim: Claim) -> dict[str, Any]:
        forecast = claim.forecast
        values = {
            "scored": len(forecast),
            "confidence": float(forecast.confidence.mean()),
            "right": float(forecast.right.mean()),
            "ece": forecast.calibration_error,
            "ece_limit": forecast.perfect_error(seed=self.seed) + TOLERANCE,
            "brier": forecast.brier,
            "auc": forecast.auc,
            "answers": claim.coverage,
            "answers_right": claim.precision,
            "answers_in_hindsight": None if claim.answered is None else forecast.best_coverage(self.target),
        }
        return {key: value if value is None else round(value, 6) for key, value in values.items()}

    def grid(self) -> Grid:
        """A line per claim."""
        header = ["claim", "confidence", "right", "ECE", "limit", "Brier", "AUC"]
        header += [f"answers at {self.target:g}", "right of them", "in hindsight"]
        body = []
        for name, claim in self.claims.items():
            found = self._values(claim)
            line = [name, *(f"{found[key]:.2%}" for key in ("confidence", "right"))]
            line += [f"{found[key]:.4f}" for key in ("ece", "ece_limit", "brier", "auc")]
            said = (found[key] for key in ("answers", "answers_right", "answers_in_hindsight"))
            body.append([*line, *("" if value is None else f"{value:.2%}" for value in said)])
        return header, body

    def remarks(self) -> list[str]:
        """What the columns are."""
        target = f"{100 * self.target:g}"
        return [
            f"Scored from event {self.after + 1} on; {self.share:.1%} of the events are labelled.",
            f"limit: 95th percentile of a perfect forecaster's ECE with these confidences, + {TOLERANCE}.",
            f"in hindsight: how often the best threshold would answer that is right {target} times in 100.",
        ]

    def figures(self, folder: Path) -> list[Path]:
        """A reliability diagram of every kind of claim."""
        return [
            figures.reliability(
                {name: claim.forecast.diagram()},
                f"{self.stream.name}: {name}",
                folder / f"reliability-{name}.png",
            )
            for name, claim in self.claims.items()
        ]


def confidence_table(
    stream: Stream,
    phis: FloatArray,
    share: float = 1.0,
    target: float = 0.9,
    setup: Setup = DEFAULT,
) -> ConfidenceTable:
    """Play the stream by `vote` and by `decide`.

    Parameters
    ----------
    share : float
        Of the events that are labelled.
    target : float
        The `min_confidence` of every decision.
    """
    verbs: tuple[Verb, ...] = ("vote", "decide") if has_answers(stream) else ("decide",)
    after = min(WARM_UP, len(stream) // 2)
    reveal = Share(share, setup.seed)
    labels, claims = stream.labels(), dict[str, Claim]()
    for verb in verbs:
        with setup.memory(stream.peers, phis.shape[1]) as memory:
            player = ConfidentPlayer(memory, verb, target)
            choices = play(stream, phis, player, reveal, partial(setup.progress, verb))
        for name, peers in choices.items():
            claim = _scored(labels, peers, player.confidence[name], player.answered.get(name), after)
            if len(claim.forecast):
                claims[name] = claim
    return ConfidenceTable(
        stream=stream, claims=claims, share=share, target=target, after=after, seed=setup.seed
    )


class ConfidentPlayer(MemoryPlayer):
    """`vote` or `decide` of a memory, and what it claims; `decide` also tells what a route would claim."""

    def __init__(self, memory: SigmaMem, verb: Verb, target: float) -> None:
        super().__init__(memory)
        self.confidence: dict[str, list[float]] = {}
        self.answered: dict[str, list[bool]] = {verb: []}
        self._verb: Verb = verb
        self._target = target

    def decide(self, event: Event, phi: FloatArray, present: Present) -> Mapping[str, int]:
        """The peer that was chosen, or would have been without `min_confidence`."""
        act = self.memory.vote if self._verb == "vote" else self.memory.decide
        decision = act(event.question, event.answers, phi=phi, min_confidence=self._target)
        self._ids.append(decision.id)
        peer = decision.peer or decision.details["abstained"]["peer"]
        claimed: dict[str, tuple[str | None, float]] = {self._verb: (peer, decision.confidence)}
        if self._verb == "decide":
            route = max(decision.probs, key=lambda name: decision.probs[name])
            claimed[_ROUTE] = route, decision.probs[route]
        for name, (_, confidence) in claimed.items():
            self.confidence.setdefault(name, []).append(confidence)
        self.answered[self._verb].append(decision.peer is not None)
        peers = self.memory.peers
        return {name: NOBODY if who is None else peers.index(who) for name, (who, _) in claimed.items()}


def _scored(
    labels: FloatArray,
    chosen: NDArray[np.intp],
    confidence: Sequence[float],
    answered: Sequence[bool] | None,
    after: int,
) -> Claim:
    """The claims from event ``after`` on of which it is known whether they were right."""
    right = np.where(chosen == NOBODY, np.nan, successes(labels)[np.arange(len(chosen)), chosen])
    known = np.flatnonzero(~np.isnan(right))
    known = known[known >= after]
    forecast = Forecast(np.array(confidence)[known], right[known])
    return Claim(forecast, None if answered is None else np.array(answered)[known])
