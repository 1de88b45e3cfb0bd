"""A route within limits: which peers may be chosen, what a call may cost, quality weighed against cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sigma_mem.decide import Outcome, Read, View
from sigma_mem.decide.explore import explore as explore_peers
from sigma_mem.decide.spending import (
    Multiplier,
    budget_multiplier,
    chances_by_utility,
    chances_good_enough,
    exploring_mean,
    exploring_sd,
)
from sigma_mem.errors import InputError
from sigma_mem.events import FloatArray
from sigma_mem.ledger.costs import LARGEST_AMOUNT, Budget, Pacing, window_row
from sigma_mem.ledger.fold import Fold
from sigma_mem.memory import Reading
from sigma_mem.session.checks import checked_number
from sigma_mem.session.peers import checked_among

_DIGITS = 9  # of p̂ and its deviation, as the ledger keeps them for a budget


@dataclass(frozen=True, slots=True)
class RouteLimits:
    """What a caller allows, and what a right answer is worth; see `SigmaMem.route`."""

    among: Sequence[str] | None = None
    max_cost: float | None = None
    max_latency: float | None = None
    value: float | None = None
    min_prob: float | None = None
    budget: Budget | None = None

    def __post_init__(self) -> None:
        checked_number("max_cost", self.max_cost, 0.0, LARGEST_AMOUNT, "0 or more")
        checked_number("max_latency", self.max_latency, 0.0, LARGEST_AMOUNT, "seconds, 0 or more")
        checked_number(
            "value", self.value, 1e-300, LARGEST_AMOUNT, "what a right answer is worth, more than 0"
        )
        checked_number("min_prob", self.min_prob, 0.0, 1.0, "a probability in [0, 1]")
        if self.budget is not None and not isinstance(self.budget, Budget):
            raise InputError(f"budget is {self.budget!r}; expected Budget(amount, events=… or seconds=…)")

    @property
    def restrict(self) -> bool:
        """Whether some peers may not be chosen."""
        return not (self.among is None and self.max_cost is None and self.max_latency is None)

    @property
    def weigh_costs(self) -> bool:
        """Whether the choice depends on costs."""
        return not (self.value is None and self.min_prob is None and self.budget is None)


def limits_given(
    among: Sequence[str] | None = None,
    max_cost: float | None = None,
    max_latency: float | None = None,
    value: float | None = None,
    min_prob: float | None = None,
    budget: Budget | None = None,
) -> RouteLimits | None:
    """The limits of a route; None if everything is allowed, as is usual."""
    given = (among, max_cost, max_latency, value, min_prob, budget)
    for limit in given:
        if limit is not None:
            return RouteLimits(*given)
    return None


class Routed(NamedTuple):
    """A route within limits: the outcome, what to keep with the decision, and what its budget needs."""

    outcome: Outcome
    details: dict[str, Any]
    pacing: Mapping[str, Any] | None = None


def route_within(
    limits: RouteLimits,
    fold: Fold,
    read: Read,
    view: View,
    reading: Reading,
    cost: FloatArray,
    price: FloatArray,
    explore: bool,
    rng: np.random.Generator,
    time: float,
) -> Routed:
    """Choose a peer that the limits allow.

    Parameters
    ----------
    cost, price : array (P,)
        What a call is expected to cost, and what it would cost by its price alone.
    """
    rows = _candidates(limits, fold, cost)
    peers = [fold.state.peers[row] for row in rows]
    details: dict[str, Any] = {"among": peers} if limits.restrict else {}
    if not limits.weigh_costs:
        outcome = explore_peers(reading, rng, rows) if explore else read.outcome(view.among(rows))
        return Routed(outcome._replace(peer=int(rows[outcome.peer])), details)
    if read.name != "calibrated-route":
        raise InputError(f"read is {read.name!r}; expected 'calibrated-route' if costs are weighed")
    mean, sd = reading.prob[rows], np.zeros(len(rows))
    if explore:
        state = fold.state
        labels = state.label_sums()[1]
        overall = float(labels @ (0.5 + 0.5 * reading.slowest) + 1.0) / float(labels.sum() + 2.0)
        variance = fold.costs.sums.variance(state.now, overall)
        mean = exploring_mean(reading, state.settings.step, labels, price, variance)[rows].round(_DIGITS)
        sd = exploring_sd(variance, labels)[rows].round(_DIGITS)
    at = {peer: list(x) for peer, x in zip(peers, np.array([mean, sd, cost[rows]]).T.tolist(), strict=True)}
    chances, said, pacing = _chances(limits, fold, mean, sd, cost[rows], at, time)
    chosen = int(np.searchsorted(chances.cumsum(), rng.random()).clip(0, len(chances) - 1))
    name = "exploring-cost-route" if explore else "cost-route"
    row = int(rows[chosen])
    outcome = Outcome(name, row, float(reading.prob[row]), float(chances[chosen]))
    if explore and pacing is None:
        pacing = {"at": at}  # labels are compared with it
    return Routed(outcome, {**details, "limits": said}, pacing)


def _candidates(limits: RouteLimits, fold: Fold, cost: FloatArray) -> NDArray[np.intp]:
    """Peers that may be chosen: indices along the pool."""
    peers = fold.state.peers
    allowed = set(peers if limits.among is None else checked_among(limits.among, peers))
    rows = np.array([i for i, peer in enumerate(peers) if peer in allowed])
    if limits.max_latency is not None:
        latency = {peers[i]: _latency(fold, peers[i]) for i in rows}
        rows = np.array([i for i in rows if latency[peers[i]] <= limits.max_latency], dtype=np.intp)
        if not rows.size:
            fastest = min(latency, key=lambda peer: latency[peer])
            raise InputError(
                f"max_latency is {limits.max_latency:g}; the fastest candidate, {fastest!r}, takes "
                f"{latency[fastest]:g} s: expected at least that"
            )
    if limits.max_cost is not None:
        affordable = rows[cost[rows] <= limits.max_cost]
        if not affordable.size:
            cheapest = rows[cost[rows].argmin()]
            raise InputError(
                f"max_cost is {limits.max_cost:g}; a call to the cheapest candidate, {peers[cheapest]!r}, is "
                f"expected to cost {cost[cheapest]:g}: expected at least that"
            )
        rows = affordable
    return rows


def _chances(
    limits: RouteLimits,
    fold: Fold,
    mean: FloatArray,
    sd: FloatArray,
    cost: FloatArray,
    at: Mapping[str, Sequence[float]],
    time: float,
) -> tuple[FloatArray, dict[str, Any], dict[str, Any] | None]:
    """Probability of every candidate, its details, and what the ledger keeps for the budget."""
    said: dict[str, Any] = {"cost": {peer: x[2] for peer, x in at.items()}}
    pacing: dict[str, Any] | None = None
    floor = 0.0 if limits.value is None else 1.0 / limits.value
    by = Multiplier(floor, floor, 0.0)
    allowed = np.ones(len(mean), dtype=bool)
    if limits.budget is not None:
        paced = fold.costs.budgets.get(limits.budget.name)
        if paced is None or paced.is_over(limits.budget, time):
            window = () if paced is None else paced.window
            paced = Pacing(1 if paced is None else paced.period + 1, time)
            paced.window.extend(window)
        target, left = paced.target(limits.budget, time), paced.left(limits.budget)
        rows = np.array([*paced.window, window_row(at, fold.state.peers)])
        by = budget_multiplier(rows[:, 0], rows[:, 1], rows[:, 2], target).at_least(floor)
        cheapest = float(cost.min())
        allowed = cost <= max(paced.affordable(limits.budget, time, cheapest), cheapest)
        pacing = {"budget": limits.budget.name, "period": paced.period, "at": at}
        said |= {"budget": limits.budget.name, "left": left, "target": target}
    if limits.min_prob is not None:
        good = mean >= limits.min_prob
        if not (good & allowed).any():
            said["fell_back"] = f"no candidate has p ≥ {limits.min_prob:g}: the best one"
        if limits.value is None and limits.budget is None:
            return chances_good_enough(mean, sd, cost, limits.min_prob), said, pacing
        best = np.arange(len(mean)) == np.where(allowed, mean, -np.inf).argmax()
        allowed = allowed & good if (allowed & good).any() else best
    said["multiplier"] = by.high
    chances = np.zeros(len(mean))
    chances[allowed] = chances_by_utility(mean[allowed], sd[allowed], cost[allowed], by)
    return chances, said, pacing


def _latency(fold: Fold, peer: str) -> float:
    price = fold.costs.prices.get(peer)
    return 0.0 if price is None or price.latency is None else price.latency
