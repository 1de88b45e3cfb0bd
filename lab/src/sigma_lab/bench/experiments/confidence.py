"""Whether the confidence can be believed: calibration, sharpness, and what `min_confidence` answers.

Real sessions are played, one event after the other, by `vote` and by `decide`. What is scored was claimed
before any label of its event was shown.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any, Literal

import numpy as np

from sigma_lab.bench.forecast import Forecast
from sigma_lab.bench.league import DEFAULT, Setup
from sigma_lab.bench.play import MemoryPlayer, play
from sigma_lab.bench.row import Present, has_answers, successes
from sigma_lab.bench.table import Table, about, rounded
from sigma_lab.reveal import Share
from sigma_mem.decide.read import NOBODY
from sigma_mem.events import Event, FloatArray
from sigma_mem.session import SigmaMem
from sigma_mem.streams import Stream

WARM_UP = 200  # events that are not scored; in a stream of less than twice as many, its first half
TOLERANCE = 0.01  # above the ECE of a perfect forecaster

Verb = Literal["vote", "decide"]


def confidence_table(
    stream: Stream,
    phis: FloatArray,
    share: float = 1.0,
    target: float = 0.9,
    setup: Setup = DEFAULT,
) -> Table:
    """Play the stream by `vote` and by `decide`, a share of it labelled; ``target`` is `min_confidence`."""
    verbs: tuple[Verb, ...] = ("vote", "decide") if has_answers(stream) else ("decide",)
    after, r = min(WARM_UP, len(stream) // 2), successes(stream.labels())
    claims: dict[str, dict[str, Any]] = {}
    forecasts: dict[str, Forecast] = {}
    for verb in verbs:
        with setup.memory(stream.peers, phis.shape[1]) as memory:
            player = ConfidentPlayer(memory, verb, target)
            choices = play(stream, phis, player, Share(share, setup.seed), partial(setup.progress, verb))
        for name, peers in choices.items():
            right = np.where(peers == NOBODY, np.nan, r[np.arange(len(stream)), peers])
            known = np.flatnonzero(~np.isnan(right))
            known = known[known >= after]
            if len(known):
                forecasts[name] = Forecast(np.array(player.confidence[name])[known], right[known])
                answered = np.array(player.answered)[known] if name == verb else None
                claims[name] = claim_values(forecasts[name], answered, target, setup.seed)
    return Table(
        title=f"Confidence: {stream.name}",
        values={**about(stream), "share": share, "min_confidence": target, "after": after, "claims": claims},
        header=["claim", "confidence", "right", "ECE", "limit", "Brier", "AUC", f"answers at {target:g}",
                "right of them", "in hindsight"],
        rows=[[name, *_cells(found)] for name, found in claims.items()],
        remarks=[
            f"Scored from event {after + 1} on; {share:.1%} of the events are labelled.",
            f"limit: 95th percentile of a perfect forecaster's ECE with these confidences, + {TOLERANCE}.",
            f"in hindsight: how often the best threshold would answer that is right {100 * target:g} times "
            "in 100.",
        ],
    )  # fmt: skip


def claim_values(
    forecast: Forecast,
    answered: "np.ndarray[tuple[int], np.dtype[np.bool_]] | None",
    target: float,
    seed: int,
) -> dict[str, Any]:
    """Every figure of one kind of claim; None if there is no choice to abstain, or nothing was answered."""
    values: dict[str, float | None] = {
        "scored": len(forecast),
        "confidence": float(forecast.confidence.mean()),
        "right": float(forecast.right.mean()),
        "ece": forecast.calibration_error,
        "ece_limit": forecast.perfect_error(seed=seed) + TOLERANCE,
        "brier": forecast.brier,
        "auc": forecast.auc,
        "answers": None if answered is None else float(answered.mean()),
        "answers_right": None,
        "answers_in_hindsight": None if answered is None else forecast.best_coverage(target),
    }
    if answered is not None and answered.any():
        values["answers_right"] = float(forecast.right[answered].mean())
    out: dict[str, float | None] = rounded(values)
    return out


def _cells(found: Mapping[str, Any]) -> list[str]:
    line = [f"{found[key]:.2%}" for key in ("confidence", "right")]
    line += [f"{found[key]:.4f}" for key in ("ece", "ece_limit", "brier", "auc")]
    said = (found[key] for key in ("answers", "answers_right", "answers_in_hindsight"))
    return [*line, *("" if value is None else f"{value:.2%}" for value in said)]


class ConfidentPlayer(MemoryPlayer):
    """`vote` or `decide` of a memory, and what it claims; `decide` also returns what a route would claim."""

    def __init__(self, memory: SigmaMem, verb: Verb, target: float) -> None:
        super().__init__(memory)
        self.confidence: dict[str, list[float]] = {}
        self.answered: list[bool] = []
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
            claimed["route"] = route, decision.probs[route]
        for name, (_, confidence) in claimed.items():
            self.confidence.setdefault(name, []).append(confidence)
        self.answered.append(decision.peer is not None)
        peers = self.memory.peers
        return {name: NOBODY if who is None else peers.index(who) for name, (who, _) in claimed.items()}
