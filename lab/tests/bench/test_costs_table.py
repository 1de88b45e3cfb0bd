"""`bench costs`: the memory and the rival under a budget, beside fixed peers and the oracle."""

import json

import numpy as np
import pytest

from sigma_lab.bench.experiments.costs import (
    FIXED,
    ORACLE,
    RIVAL,
    SIGMA,
    CostlyEvents,
    best_affordable,
    best_in_hindsight,
    costs_table,
    default_budgets,
    play_paretobandit,
    spent_by_budget,
)
from sigma_mem.errors import InputError
from sigma_mem.events import Answer, Event
from sigma_mem.streams import Stream

PEERS = ("small", "large")
PHIS = np.eye(2)


def stream(events=240, costs=True):
    """At even places both are right, at odd places the large one only, which costs ten times as much."""
    made = []
    for i in range(events):
        answers = dict.fromkeys(PEERS, Answer("", None))
        correct = {"small": 1.0 if i % 2 else -1.0, "large": 1.0}
        cost = {"small": 1.0, "large": 10.0} if costs else {}
        made.append(Event(f"e{i}", "?", answers, correct, costs=cost))
    return Stream("made-up", PEERS, tuple(made))


def phis(events=240):
    return PHIS[np.arange(events) % 2]


def test_the_memory_spends_where_it_helps_and_no_more():
    found = spent_by_budget(stream(), phis(), [6.0], (0,), rival=False)[6.0]
    reached, fixed, oracle = (found[name][0] for name in (SIGMA, FIXED, ORACLE))
    assert fixed == (0.5, 1.0)
    assert oracle == (1.0, 5.5)
    assert reached.cost <= 6.0
    assert reached.accuracy > 0.9


def test_the_table_says_it_all():
    table = costs_table(stream(60), phis(60), orders=(0, 1), rival=False)
    values = json.loads(json.dumps(table.values))
    assert values["orders"] == [0, 1]
    assert len(values["budgets"]) == 8
    assert {"accuracy", "cost", "regret", "by_order"} == set(values["budgets"]["10"][SIGMA])
    assert (len(table.header), len(table.rows)) == (4, 8)
    assert "best fixed peer" in "\n".join(table.remarks)


def test_a_stream_without_costs_is_refused():
    with pytest.raises(InputError, match='expected "costs" next to "correct"'):
        costs_table(stream(10, costs=False), phis(10))


def test_fixed_peers_and_the_oracle():
    right = np.array([[0.0, 1.0], [1.0, 1.0], [0.0, 1.0], [0.0, np.nan]])
    events = CostlyEvents(PEERS, phis(4), right, np.where(np.isnan(right), np.nan, [[1.0, 5.0]]))
    assert best_affordable(events, 4.9) == (0.25, 1.0)
    assert best_affordable(events, 5.0) == (1.0, 5.0)
    assert best_affordable(events, 0.5) == (0.25, 1.0)  # nothing is affordable: the cheapest
    assert best_in_hindsight(events, 3.0) == (0.75, 3.0)
    assert best_in_hindsight(events, 0.5).cost == 1.0
    assert default_budgets(events.prices)[-1] == 5.0


def test_the_rival_sees_costs_and_absent_peers():
    pytest.importorskip("pareto_bandit")
    right = np.array([[0.0, 1.0]] * 40)
    costs = np.array([[1.0, np.nan]] * 20 + [[1.0, 5.0]] * 20)
    chosen = play_paretobandit(CostlyEvents(PEERS, phis(40), right, costs), 5.0, 0)
    assert chosen[:20].tolist() == [0] * 20
    assert chosen[20:].any()
    found = costs_table(stream(30), phis(30), budgets=[3.0], orders=(0,)).values
    assert set(found["budgets"]["3"]) == {SIGMA, RIVAL, FIXED, ORACLE}
