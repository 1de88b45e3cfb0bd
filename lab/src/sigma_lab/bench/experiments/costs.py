"""Accuracy against spending, on streams that carry costs: a budget for all events, and one label per event.

The memory's route explores under a `Budget`, and ParetoBandit paces the same one with its own defaults. Both
get every peer's price, its mean cost on the stream. They see the label and the real cost of the peer that
they choose, and nothing else. They are compared with the best fixed peer one can afford, in hindsight, and
the best choice of peers within the budget, event by event, which knows all labels and costs.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sigma_lab.bench.league import DEFAULT, Setup
from sigma_lab.bench.rivals import ParetoBandit
from sigma_lab.bench.row import successes
from sigma_lab.bench.table import Table, about, rounded
from sigma_mem.errors import InputError
from sigma_mem.events import FloatArray
from sigma_mem.ledger.costs import Budget
from sigma_mem.session import SigmaMem
from sigma_mem.streams import Stream

SIGMA, RIVAL, FIXED, ORACLE = "sigma-mem", "paretobandit", "best fixed peer", "oracle"


class Spent(NamedTuple):
    """What one way of choosing reached: the share right, and the mean cost of an event."""

    accuracy: float
    cost: float


class CostlyEvents(NamedTuple):
    """Events in an order: φ (T, rank), successes in [0, 1] and costs (T, P), NaN if a peer is absent."""

    peers: tuple[str, ...]
    phis: FloatArray
    right: FloatArray
    costs: FloatArray

    @property
    def prices(self) -> FloatArray:
        """The mean cost of a call to every peer, (P,)."""
        mean: FloatArray = np.nanmean(self.costs, axis=0)
        return mean

    def spent(self, chosen: NDArray[np.intp]) -> Spent:
        """What choosing these peers reached."""
        events = np.arange(len(chosen))
        return Spent(float(self.right[events, chosen].mean()), float(self.costs[events, chosen].mean()))


def costs_table(
    stream: Stream,
    phis: FloatArray,
    budgets: Sequence[float] | None = None,
    orders: Sequence[int] = (0, 1, 2),
    rival: bool = True,
    setup: Setup = DEFAULT,
) -> Table:
    """Play the stream under every budget (per event), in every order."""
    found = spent_by_budget(stream, phis, budgets, orders, rival, setup)
    names = list(next(iter(found.values())))
    mean = {b: {name: Spent(*np.mean(of[name], axis=0).tolist()) for name in of} for b, of in found.items()}
    others = [name for name in (RIVAL, FIXED) if name in names]
    above = {
        o: [f"{100 * (of[SIGMA].accuracy - of[o].accuracy):+.2f}" for of in mean.values()] for o in others
    }
    return Table(
        title=f"Costs: {stream.name}",
        values={
            **about(stream),
            "orders": list(orders),
            "budgets": {f"{budget:.6g}": _values(found[budget], of) for budget, of in mean.items()},
        },
        header=["budget per event", *(f"{name}: % right (spent)" for name in names)],
        rows=[[f"{budget:.3g}", *(_cell(of, name, budget) for name in names)] for budget, of in mean.items()],
        remarks=[
            f"Means over the orders {', '.join(map(str, orders))}; points of sigma-mem above:",
            *(f"- {other}: {', '.join(points)}" for other, points in above.items()),
        ],
    )


def spent_by_budget(
    stream: Stream,
    phis: FloatArray,
    budgets: Sequence[float] | None,
    orders: Sequence[int],
    rival: bool,
    setup: Setup = DEFAULT,
) -> dict[float, dict[str, list[Spent]]]:
    """What every way of choosing reached, by budget per event: one value per order of the stream."""
    events = _costly_events(stream, phis)
    chosen_budgets = default_budgets(events.prices) if budgets is None else list(budgets)
    players: dict[str, Callable[[CostlyEvents, float, int], NDArray[np.intp]]] = {SIGMA: play_memory}
    if rival:
        players[RIVAL] = play_paretobandit
    found: dict[float, dict[str, list[Spent]]] = {budget: {} for budget in chosen_budgets}
    place = {event.id: i for i, event in enumerate(stream)}
    for done, (order, budget) in enumerate(product(orders, chosen_budgets), start=1):
        places = np.array([place[event.id] for event in stream.select(seed=order)])
        ordered = CostlyEvents(events.peers, *(part[places] for part in events[1:]))
        reached = {name: ordered.spent(play(ordered, budget, order)) for name, play in players.items()}
        reached |= {FIXED: best_affordable(ordered, budget), ORACLE: best_in_hindsight(ordered, budget)}
        for name, one in reached.items():
            found[budget].setdefault(name, []).append(one)
        setup.progress(f"order {order}", done, len(orders) * len(chosen_budgets))
    return found


def _values(found: Mapping[str, Sequence[Spent]], mean: Mapping[str, Spent]) -> dict[str, Any]:
    """Accuracy, cost and regret by way of choosing, and each order's."""
    return {
        name: {
            **rounded(one._asdict(), 8),
            "regret": round(mean[ORACLE].accuracy - one.accuracy, 6),
            "by_order": rounded(found[name], 8),
        }
        for name, one in mean.items()
    }


def _cell(found: Mapping[str, Spent], name: str, budget: float) -> str:
    """% right, the share of the budget that was spent, and the regret."""
    reached, best = found[name], found[ORACLE].accuracy
    regret = "" if name == ORACLE else f", regret {100 * (best - reached.accuracy):.2f}"
    return f"{100 * reached.accuracy:.2f} ({100 * reached.cost / budget:.0f}%{regret})"


def default_budgets(prices: FloatArray) -> list[float]:
    """Eight budgets per event, from above the cheapest peer's price to the dearest's."""
    return [float(f"{x:.3g}") for x in np.geomspace(1.5 * prices.min(), prices.max(), 8)]


def _costly_events(stream: Stream, phis: FloatArray) -> CostlyEvents:
    right, costs = successes(stream.labels()), stream.costs()
    known = np.isfinite(right) & np.isfinite(costs)
    if not known.any(axis=1).all() or not known.any(axis=0).all():
        raise InputError(
            f"stream {stream.name!r} has events or peers without a cost and a label; expected "
            '"costs" next to "correct" on every line'
        )
    return CostlyEvents(stream.peers, phis, np.where(known, right, np.nan), np.where(known, costs, np.nan))


def play_memory(events: CostlyEvents, budget: float, seed: int) -> NDArray[np.intp]:
    """The memory's exploring route under a budget; the peer chosen at every event."""
    total = Budget(budget * len(events.phis), events=len(events.phis))
    chosen = []
    with SigmaMem(events.peers, rank=events.phis.shape[1], seed=seed, keep_text=False) as mem:
        for name, price in zip(events.peers, events.prices.tolist(), strict=True):
            mem.set_price(name, per_call=price)
        for phi, right, costs in zip(events.phis, events.right, events.costs, strict=True):
            present = [name for name, cost in zip(events.peers, costs, strict=True) if cost == cost]
            decision = mem.route(phi=phi, explore=True, among=present, budget=total)
            peer = events.peers.index(decision.peer or "")
            mem.served(decision, cost=float(costs[peer]))
            mem.feedback(decision, {events.peers[peer]: 2.0 * float(right[peer]) - 1.0})
            chosen.append(peer)
    return np.array(chosen, dtype=np.intp)


def play_paretobandit(events: CostlyEvents, budget: float, seed: int) -> NDArray[np.intp]:
    """`BanditRouter` with its `BudgetPacer`, over φ and a bias; both keep their published defaults."""
    n, rank = len(events.peers), events.phis.shape[1]
    rival = ParetoBandit(n, rank, seed, explore=True, prices=events.prices.tolist(), budget=budget)
    chosen = []
    for phi, right, costs in zip(events.phis, events.right, events.costs, strict=True):
        peer = rival.choose(phi, np.isfinite(costs))
        rival.learn(phi, np.where(np.arange(n) == peer, 2.0 * right - 1.0, np.nan), peer)
        rival.spend(float(costs[peer]))
        chosen.append(peer)
    return np.array(chosen, dtype=np.intp)


def best_affordable(events: CostlyEvents, budget: float) -> Spent:
    """The peer that is right most often, of those whose mean cost is within the budget; else the cheapest."""
    right, cost = np.nanmean(events.right, axis=0), events.prices
    affordable = cost <= budget * (1.0 + 1e-9)
    best = int(np.where(affordable, right, -1.0).argmax()) if affordable.any() else int(cost.argmin())
    return Spent(float(right[best]), float(cost[best]))


def best_in_hindsight(events: CostlyEvents, budget: float) -> Spent:
    """The best choice of a peer for every event within the budget, knowing all: max right − λ·cost."""
    low, high = 0.0, 1e3 / float(np.nanmin(events.costs))
    best = events.spent(np.nanargmin(events.costs, axis=1))
    for _ in range(60):
        middle = 0.5 * (low + high) if low == 0.0 and high < 1e-9 else float(np.sqrt(max(low, 1e-9) * high))
        reached = events.spent(np.nanargmax(events.right - middle * events.costs, axis=1))
        if reached.cost > budget:
            low = middle
        else:
            best, high = reached, middle
    return best
