"""`bench offpolicy` and `bench conversations`, on events made up so that the outcome is known."""

import numpy as np
import pytest

from sigma_lab.bench.experiments.conversations import conversations, conversations_table
from sigma_lab.bench.experiments.offpolicy import offpolicy_table
from sigma_mem.errors import InputError
from sigma_mem.events import Answer, Event
from sigma_mem.streams import Stream

PEERS = ("small", "large")


def stream(events: int = 120, costs: bool = True, large: float = 0.01) -> Stream:
    """Both are right half of the time, so that routes change; the large one costs ten times as much."""
    rng, made = np.random.default_rng(0), []
    for i in range(events):
        correct = {peer: 1.0 if rng.random() < 0.5 else -1.0 for peer in PEERS}
        answers = dict.fromkeys(PEERS, Answer("", None))
        cost = {"small": 0.001, "large": large} if costs else {}
        domain = "law" if i % 2 else "code"
        made.append(Event(f"e{i}", "How much? " * 20, answers, correct, domain=domain, costs=cost))
    return Stream("made-up", PEERS, tuple(made))


def phis(events: int = 120) -> np.ndarray:
    return np.tile(np.eye(2), (events // 2, 1))


def test_intervals_hold_the_truth_and_a_report_what_follows():
    table = offpolicy_table(stream(), phis(), replays=6, events=100, observed=2)
    assert {row["read"] for row in table.values["rows"]} >= {"as logged", "calibrated-route", *PEERS}
    assert sum(int(row["held"].split()[0]) for row in table.values["rows"]) >= 0.9 * 6 * len(table.rows)
    for one in table.values["observed"]:
        assert one["low"] <= one["truth"] <= one["high"]


def test_conversations_are_runs_of_one_domain():
    runs = list(conversations(stream(), seed=1))
    assert sum(map(len, runs)) == 120
    assert all(len({event.domain for event in run}) == 1 for run in runs)
    assert max(map(len, runs)) <= 12
    assert runs != list(conversations(stream(), seed=2))


def test_to_stay_costs_less_than_to_route_every_turn():
    same = stream(large=0.001)  # what differs is what a switch loses, not who happens to be asked
    table = conversations_table(same, phis(), [0.0], [0, 1, 2, 3])
    alone, kept, never = (np.mean([one["cost"] for one in way]) for way in table.values["ways"].values())
    assert kept < alone
    assert never < alone
    assert all(one["switches"] == 0.0 for one in table.values["ways"]["never switched"])


def test_a_stream_without_costs_is_refused():
    with pytest.raises(InputError, match="expected costs"):
        conversations_table(stream(costs=False), phis(), [0.0], [0])
