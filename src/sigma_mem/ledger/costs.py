"""What peers cost and what was spent: prices, charges of events, budgets; a part of the fold.

An event is charged for every peer that a decision sends the task to (a route's choice, the peers whose
answers a vote was given): first what a call is expected to cost, then the real cost, once `served` reports
it. Amounts are added as whole numbers of 10⁻¹², so that what is corrected leaves nothing behind.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import numpy as np

from sigma_mem.errors import InputError
from sigma_mem.events import FloatArray
from sigma_mem.ledger.event import EventState
from sigma_mem.ledger.lines import Charge, Line, PacedDecision, PriceLine
from sigma_mem.memory.costs import CostSums
from sigma_mem.tabular import Tabular

_UNIT = 10**12  # parts of a unit of money
_WINDOW = 128  # decisions from which a budget's multiplier follows
LARGEST_AMOUNT = 1e100  # of a cost or a time: their sums stay finite
_CHARACTERS = 4.0  # a token
_FIRST_SECOND, _LAST_SECOND = -62_135_596_800.0, 253_402_300_799.0  # of what a date can be
_SMOOTHED = 0.02  # share of the events that what there was for each at first is worth
_RESERVE = 0.005  # of a whole budget, for its last events
_FORESEEN = 0.02  # share of a budget that is worth as much as taking costs to be as expected


@dataclass(frozen=True, slots=True)
class Price:
    """What a call to a peer costs, in any one unit of money, and how long it takes, in seconds.

    The tokens of a question are estimated from its length; how long answers are is corrected by the real
    costs that `served` reports.
    """

    per_call: float = 0.0
    per_input_token: float = 0.0
    per_output_token: float = 0.0
    output_tokens: float = 300.0
    latency: float | None = None

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if value is not None and not (_is_number(value) and 0.0 <= value <= LARGEST_AMOUNT):
                raise InputError(f"{name} is {value!r}; expected a number, 0 or more")

    def of_call(self, characters: int) -> float:
        """What a call with a question of this length is expected to cost."""
        tokens = characters / _CHARACTERS
        return self.per_call + self.per_input_token * tokens + self.per_output_token * self.output_tokens


@dataclass(frozen=True, slots=True)
class Budget:
    """An amount to spend over a number of events, or over seconds; then the next period begins.

    A name distinguishes budgets of one memory; the amount may be changed within a period.
    """

    amount: float
    events: int | None = None
    seconds: float | None = None
    name: str = "budget"

    def __post_init__(self) -> None:
        if not (_is_number(self.amount) and 0.0 < self.amount <= LARGEST_AMOUNT):
            raise InputError(f"amount is {self.amount!r}; expected a positive number")
        horizon = self.seconds if self.events is None else self.events
        one = (self.events is None) != (self.seconds is None)
        if not one or not _is_number(horizon) or not 0.0 < horizon <= LARGEST_AMOUNT:  # type: ignore[operator]
            raise InputError(
                f"events is {self.events!r} and seconds {self.seconds!r}; expected one of them, positive"
            )
        if not isinstance(self.name, str) or not self.name:
            raise InputError(f"name is {self.name!r}; expected the name of a budget")


@dataclass(frozen=True, slots=True)
class Spending(Tabular):
    """What was spent: in all, by peer, and by day (UTC, as YYYY-MM-DD) and peer; and prices by peer."""

    total: float
    by_peer: Mapping[str, float]
    by_day: Mapping[str, Mapping[str, float]]
    prices: Mapping[str, Price] = field(default_factory=dict)

    def rows(self) -> list[dict[str, Any]]:
        """One row a day and peer."""
        return [
            {"day": day, "peer": peer, "cost": cost}
            for day, costs in self.by_day.items()
            for peer, cost in costs.items()
        ]

    def to_dict(self) -> dict[str, Any]:
        """Its fields."""
        return asdict(self)

    def _caption(self) -> str:
        return f"{self.total:.6g} in all"


@dataclass(slots=True)
class Pacing:
    """A budget's current period: when it began, its decisions, what they cost, and the newest of them."""

    period: int = 0
    start: float = 0.0
    events: int = 0
    spent: int = 0
    known: int = 0  # spent on calls whose real cost is known
    foreseen: int = 0  # what these were expected to cost
    window: deque[FloatArray] = field(default_factory=lambda: deque(maxlen=_WINDOW))  # each (3, P)

    def is_over(self, budget: Budget, time: float) -> bool:
        """Whether the next decision begins a period."""
        if budget.events is not None:
            return self.events >= budget.events
        return budget.seconds is not None and time >= self.start + budget.seconds

    def left(self, budget: Budget) -> float:
        """What is left of the amount."""
        return budget.amount - self.spent / _UNIT

    def ahead(self, budget: Budget, time: float) -> tuple[float, float]:
        """How many events a period has, and how many of them are to come, this one included."""
        if budget.events is not None:
            return float(budget.events), float(budget.events - self.events)
        seconds = float(budget.seconds or 0.0)
        elapsed = min(max(time - self.start, 0.0), seconds)
        pace = (self.events + 10.0) / (elapsed + seconds / 100.0)  # a thousand, until more is known
        return pace * seconds, max(pace * (seconds - elapsed), 1.0)

    def target(self, budget: Budget, time: float) -> float:
        """What a call may be expected to cost: what is left per event that is to come in this period.

        The peers chosen are those whose costs are underestimated, so that calls cost more than expected; the
        target allows for that. With few events to come chance decides what is left for each, so that it is
        averaged with what there was for each at first; a small reserve pays for the difference. It shrinks as
        what chance can do to the rest shrinks, with its root, so that nothing is left over in the end.
        """
        total, to_come = self.ahead(budget, time)
        smoothed = _SMOOTHED * total
        reserve = _RESERVE * budget.amount * math.sqrt(to_come / total)
        left = max(self.left(budget) - reserve, 0.0)
        per_event = (left + smoothed * budget.amount / total) / (to_come + smoothed)
        prior = _FORESEEN * budget.amount * _UNIT
        excess = (self.known + prior) / (self.foreseen + prior)
        return per_event / max(excess, 0.1)

    def affordable(self, budget: Budget, time: float, cheapest: float) -> float:
        """What the next call may cost, if the cheapest peer is to answer all others of the period."""
        return self.left(budget) - cheapest * (self.ahead(budget, time)[1] - 1.0)


class Costs:
    """Prices, spending and budgets after some part of a ledger."""

    def __init__(self, n_peers: int, rank: int, rate: float) -> None:
        self.prices: dict[str, Price] = {}
        self.price_lines = 0
        self.spent: dict[str, dict[str, int]] = {}  # day → peer → amount
        self.budgets: dict[str, Pacing] = {}
        self.sums = CostSums(n_peers, rank, rate)

    # --- lines ---------------------------------------------------------------------------

    def apply_price(self, body: PriceLine) -> None:
        """A peer has another price from now on."""
        self.prices[body.peer] = Price(**body.price)  # type: ignore[arg-type]  # `Price` checks them
        self.price_lines += 1

    def apply_pacing(self, said: PacedDecision, time: float, peers: Sequence[str]) -> None:
        """A decision under a budget: it counts in its period."""
        if said.budget is None:
            return
        pacing = self.budgets.setdefault(said.budget, Pacing())
        if said.period != pacing.period:
            pacing.period, pacing.start = said.period, time
            pacing.events = pacing.spent = pacing.known = pacing.foreseen = 0
        pacing.events += 1
        pacing.window.append(window_row(said.at, peers))

    def recharge(self, before: Mapping[str, Charge], event: EventState, peers: Sequence[str]) -> None:
        """Replace an event's charges with these."""
        for charges, sign in ((before, -1), (event.charges, 1)):
            for peer, charge in charges.items():
                if before.get(peer) == event.charges.get(peer):
                    continue
                self.spend(peer, charge, sign)
                if charge.real and charge.base > 0.0 and peer in peers:
                    place, weight = peers.index(peer), sign * charge.weight
                    self.sums.write_ratio(place, charge.ratio, event.phi, charge.tick, weight)

    def spend(self, peer: str, charge: Charge, sign: int = 1) -> None:
        """Book a charge; sign −1 takes it back."""
        amount = sign * round(charge.counted * _UNIT)
        by_peer = self.spent.setdefault(_day(charge.time), {})
        by_peer[peer] = by_peer.get(peer, 0) + amount
        if charge.budget is not None:
            name, period = charge.budget
            pacing = self.budgets.get(name)
            if pacing is not None and pacing.period == period:
                pacing.spent += amount
                if charge.real:
                    pacing.known += amount
                    pacing.foreseen += sign * round(charge.expected * _UNIT)

    def rename_peer(self, peer: str, name: str) -> None:
        """Price and spending go with a peer that is renamed, or to its successor."""
        if peer in self.prices:
            self.prices[name] = self.prices.pop(peer)
        for by_peer in self.spent.values():
            if peer in by_peer:
                by_peer[name] = by_peer.get(name, 0) + by_peer.pop(peer)

    def set_peers(self, before: Sequence[str], after: Sequence[str]) -> None:
        """The pool has changed: what is known of the peers that stay is kept."""
        self.sums.take([before.index(peer) if peer in before else -1 for peer in after])
        for pacing in self.budgets.values():
            pacing.window.clear()

    # --- reads ---------------------------------------------------------------------------

    def expected(
        self, peers: Sequence[str], characters: int, phi: FloatArray, now: float
    ) -> tuple[FloatArray, FloatArray]:
        """What a call to every peer will cost, and what it costs by its price alone; 0 without a price."""
        if not self.prices:
            return _free(len(peers)), _free(len(peers))
        free = Price()
        base = np.array([self.prices.get(peer, free).of_call(characters) for peer in peers])
        if not base.any():
            return base, base
        return base * self.sums.ratios(phi, now), base

    def spending(self, since: float | None, until: float | None, peers: Sequence[str] = ()) -> Spending:
        """What was spent on the days from `since` to `until`, both included; and prices of these peers."""
        first, last = ("" if since is None else _day(since)), ("~" if until is None else _day(until))
        days = {day: by for day, by in sorted(self.spent.items()) if first <= day <= last}
        by_peer: dict[str, int] = {}
        for by in days.values():
            for peer, amount in by.items():
                by_peer[peer] = by_peer.get(peer, 0) + amount
        return Spending(
            sum(by_peer.values()) / _UNIT,
            {peer: amount / _UNIT for peer, amount in by_peer.items()},
            {day: {peer: amount / _UNIT for peer, amount in by.items()} for day, by in days.items()},
            {peer: self.prices[peer] for peer in peers if peer in self.prices},
        )

    # --- snapshot ------------------------------------------------------------------------

    def pack(self) -> tuple[dict[str, Any], dict[str, FloatArray]]:
        """Everything this object holds: JSON values, and arrays."""
        meta = {
            "prices": {peer: asdict(price) for peer, price in self.prices.items()},
            "price_lines": self.price_lines,
            "spent": {day: {peer: str(x) for peer, x in by.items()} for day, by in self.spent.items()},
            "budgets": {
                name: [x.period, x.start, x.events, *map(str, (x.spent, x.known, x.foreseen))]
                for name, x in self.budgets.items()
            },
        }  # amounts are whole numbers of any size, which only text can hold
        windows = {f"window{i}": np.array(pacing.window) for i, pacing in enumerate(self.budgets.values())}
        return meta, {**self.sums.pack(), **windows}

    def unpack(self, meta: Mapping[str, Any], arrays: Mapping[str, FloatArray]) -> None:
        """Continue from what `pack` returned."""
        self.prices = {peer: Price(**values) for peer, values in meta["prices"].items()}
        self.price_lines = meta["price_lines"]
        self.spent = {day: {peer: int(x) for peer, x in by.items()} for day, by in meta["spent"].items()}
        for i, (name, values) in enumerate(meta["budgets"].items()):
            self.budgets[name] = Pacing(*values[:3], *map(int, values[3:]))
            self.budgets[name].window.extend(arrays[f"window{i}"])
        self.sums.unpack(arrays)


@lru_cache
def _free(n_peers: int) -> FloatArray:
    free = np.zeros(n_peers)
    free.flags.writeable = False
    return free


def window_row(at: Mapping[str, Sequence[float]], peers: Sequence[str]) -> FloatArray:
    """p̂, its deviation and the cost of every peer at one decision, (3, P); −inf for one no candidate."""
    return np.array([at.get(peer, (-math.inf, 0.0, 0.0)) for peer in peers]).T


def price_line(peer: str, price: Price, number: int, time: float) -> Line[PriceLine]:
    """The price of a peer, from now on."""
    return Line("price", f"{number}", "", PriceLine(peer, asdict(price), time))


def _day(time: float) -> str:
    known = min(max(time, _FIRST_SECOND), _LAST_SECOND) if time == time else _FIRST_SECOND  # not NaN
    return datetime.fromtimestamp(known, UTC).date().isoformat()


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
