"""Labels as users have them: all, few, only of the served peer, until a pause, in bursts.

Routes are played on the stream under every regime, compared with the leader, Thompson sampling and UCB with a
linear model on the same φ, and ParetoBandit. How far p̂ can be believed is measured in two ways: the
calibration error of p̂ on the stream's own peers, and how often the 95 % interval of simulated peers, whose
rate of being right on every kind of task is known, holds that rate. A kind of task is a domain of the stream,
and it is named as the topic. Intervals are also measured if one of four peers becomes another at the middle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from statistics import fmean

import numpy as np

from sigma_lab.bench.baselines import LinearThompson
from sigma_lab.bench.forecast import Forecast
from sigma_lab.bench.league import Setup, in_processes, routers, rows_of
from sigma_lab.bench.play import MemoryPlayer, Player, RoutePlayer, RouterPlayer, play
from sigma_lab.bench.row import has_answers, successes
from sigma_lab.bench.table import Table, about, rounded
from sigma_lab.reveal import Bandit, Everything, Reveal, Share, When
from sigma_mem.decide import Reads
from sigma_mem.decide.explore import explore
from sigma_mem.events import FloatArray
from sigma_mem.memory import SigmaState
from sigma_mem.streams import Stream

RIVALS = ("paretobandit", "mabwiser-linucb")
COMPARED = ("leader", "linear-thompson", *RIVALS)
_SIMULATED, _EVENTS, _FROM, _EVERY = 4, 400, 60, 5  # peers, events, and which of them are used


def regimes(events: int, seed: int) -> dict[str, Reveal]:
    """Which labels are shown, by name; bursts are the first quarter of every hundred events."""
    return {
        "full": Everything(),
        "5 %": Share(0.05, seed),
        "served": Bandit(),
        "paused": When(lambda place: place < events // 2),
        "bursts": When(lambda place: place % 100 < 25),
    }


def regimes_table(
    stream: Stream, phis: FloatArray, setup: Setup, seeds: Sequence[int], *, shuffled: bool = True
) -> Table:
    """Play every regime with every seed, each in an order of its own, or in the stream's."""
    orders = [(seed, stream.select(seed=seed) if shuffled else stream) for seed in seeds]
    by_id = dict(zip((event.id for event in stream), phis, strict=True))
    names: dict[str, None] = {}
    played, values, remarks = {}, {}, []
    for done, regime in enumerate(regimes(0, 0), start=1):
        runs = in_processes(partial(_run, by_id, setup, regime), orders, setup.processes)
        accuracy = {name: fmean(right[name] for right, _ in runs) for name in runs[0][0]}
        ece, covered, width = np.mean([others for _, others in runs], axis=0).tolist()
        setup.progress("regimes", done, len(regimes(0, 0)))
        played[regime] = accuracy, [f"{100 * ece:.2f}", f"{100 * covered:.1f} %", f"{width:.2f}"]
        values[regime] = {"accuracy": accuracy, "ece": ece, "interval": _interval_values(covered, width)}
        names |= dict.fromkeys(accuracy)
        best = max((name for name in COMPARED if name in accuracy), key=lambda name: accuracy[name])
        gap = 100 * (accuracy["route"] - accuracy[best])
        remarks.append(f"- {regime}: the route is {gap:+.2f} points from {best}.")
    kinds = _kinds(stream, phis)
    covered, width = np.mean([_intervals(kinds, "drift", seed) for seed in seeds], axis=0).tolist()
    values["drift"] = {"interval": _interval_values(covered, width)}
    remarks.append(
        f"- drift: if one of {_SIMULATED} peers becomes another at the middle, {100 * covered:.1f} % of the "
        f"intervals hold, {width:.2f} times as wide as a Beta's."
    )
    return Table(
        title=f"Regimes: {stream.name}",
        values={**about(stream), **rounded(values)},
        header=["% right", *names, "ECE of p̂", "95 % interval holds", "width / Beta's"],
        rows=[
            [regime, *(f"{100 * right[n]:.2f}" if n in right else "–" for n in names), *cells]
            for regime, (right, cells) in played.items()
        ],
        remarks=remarks,
    )


def _interval_values(covered: float, width: float) -> dict[str, float]:
    return {"covered": covered, "width_to_beta": width}


def _run(
    phis: Mapping[str, FloatArray], setup: Setup, regime: str, order: tuple[int, Stream]
) -> tuple[dict[str, float], FloatArray]:
    """A regime with one seed: accuracies; calibration error of p̂, coverage and width of intervals."""
    seed, stream = order
    own = np.array([phis[event.id] for event in stream])
    accuracy, ece = _played(stream, own, replace(setup, seed=seed), regime)
    return accuracy, np.array([ece, *_intervals(_kinds(stream, own), regime, seed)])


def _played(stream: Stream, phis: FloatArray, setup: Setup, regime: str) -> tuple[dict[str, float], float]:
    """Accuracy of every row, and the calibration error of p̂."""
    reveal = regimes(len(stream), setup.seed)[regime]
    memory = setup.memory(stream.peers, phis.shape[1])
    served = regime == "served"
    ours: Player = MemoryPlayer(memory, Reads(setup.reads["calibrated-route"]))
    if served or not has_answers(stream):
        ours = RoutePlayer(memory, explore=served)
    others = routers(stream, phis, replace(setup, rivals=RIVALS), explore=served)
    made = {name: router for name, router in others.items() if name in COMPARED}
    made["linear-thompson"] = LinearThompson(len(stream.peers), phis.shape[1], setup.seed, explore=served)
    choices = dict(play(stream, phis, ours, reveal))
    choices["route"] = choices.pop("exploring-route" if served else "calibrated-route")
    for name, router in made.items():
        choices.update(play(stream, phis, RouterPlayer(name, router, stream.peers), reveal))
    rows = rows_of(stream, choices, setup.reads)
    shown = ("route", "adaptive", *COMPARED)
    probs = np.array([[d.probs[p] for p in stream.peers] for d in memory.decisions()])[::-1]
    right = successes(stream.labels())
    known = ~np.isnan(right)
    ece = Forecast(probs[known], right[known]).calibration_error
    return {n: rows[n].accuracy for n in shown if n in rows}, ece


def _kinds(stream: Stream, phis: FloatArray) -> list[FloatArray]:
    """φ's of up to six domains."""
    domains = np.array([event.domain or "all" for event in stream], dtype=str)
    names, counts = np.unique(domains, return_counts=True)
    return [phis[domains == name] for name in names[np.argsort(-counts, kind="stable")[:6]]]


def _intervals(kinds: Sequence[FloatArray], regime: str, seed: int) -> tuple[float, float]:
    """How often intervals of simulated peers hold their rates, and their width over that of a Beta."""
    rng = np.random.default_rng(seed)
    truth = rng.beta(1.2, 0.8, size=(len(kinds), _SIMULATED))
    state = SigmaState([str(p) for p in range(_SIMULATED)], kinds[0].shape[1])
    right, asked = np.zeros((2, len(kinds), _SIMULATED))
    held, widths, betas = [], [], []
    for t in range(_EVENTS):
        if regime == "drift" and t == _EVENTS // 2:
            truth[:, 0] = rng.beta(1.2, 0.8, size=len(kinds))
        kind = int(rng.integers(len(kinds)))
        phi, topics = kinds[kind][rng.integers(len(kinds[kind]))], (str(kind),)
        reading = state.read(phi, topics=topics)
        low, high = reading.interval()
        if t >= _FROM and t % _EVERY == 0:
            held.append((low <= truth[kind]) & (truth[kind] <= high))
            widths.append(high - low)
            a, b = 1.0 + right[kind], 1.0 + asked[kind] - right[kind]
            ends = np.quantile(rng.beta(a, b, size=(500, _SIMULATED)), [0.025, 0.975], axis=0)
            betas.append(ends[1] - ends[0])
        tick = state.begin_event()
        shown = np.ones(_SIMULATED, dtype=bool)
        if regime == "served":
            shown = np.arange(_SIMULATED) == explore(reading, rng).peer
        elif regime == "5 %":
            shown[:] = rng.random() < 0.05
        elif regime in ("paused", "bursts"):
            shown[:] = t < _EVENTS // 2 if regime == "paused" else t % 100 < 25
        if shown.any():
            was_right = rng.random(_SIMULATED) < truth[kind]
            right[kind] += shown & was_right
            asked[kind] += shown
            c = np.where(shown, np.where(was_right, 1.0, -1.0), np.nan)
            of_topics = None if reading.topics is None else reading.topics.claims
            state.write(phi, c, tick, claims=reading.claims, topics=topics, topic_claims=of_topics)
    return float(np.mean(held)), float(np.mean(widths) / np.mean(betas))
