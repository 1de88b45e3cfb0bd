"""The panel experiment: accuracy against calls, as sessions play it."""

from dataclasses import replace

import pytest
from madeup import made_up
from partial import without_answers

from sigma_lab.bench.experiments.panel import EVERYONE, panel_table, played_panels
from sigma_mem.errors import InputError


def test_asking_on_costs_calls_and_everyone_is_the_most() -> None:
    stream, phis = made_up(120, n_peers=6)
    table = panel_table(stream, phis, changes=(0.05, 0.5))
    ways = table.values["ways"]
    assert ways[EVERYONE]["calls"] == 6.0
    assert ways["best 1"]["calls"] == 1.0
    assert 1.0 <= ways["change ≤ 0.5"]["calls"] < ways["change ≤ 0.05"]["calls"] < 6.0
    assert ways[EVERYONE]["difference"] == 0.0
    right = ways["change ≤ 0.05"]["accuracy"] - ways[EVERYONE]["accuracy"]
    assert ways["change ≤ 0.05"]["difference"] == pytest.approx(right, abs=2e-6)


def test_only_those_asked_are_labelled() -> None:
    stream, phis = made_up(60)
    way = played_panels(stream, phis, changes=(0.3,))["change ≤ 0.3, those asked labelled"]
    assert way.asked_only
    assert way.calls.min() >= 1


def test_a_stream_without_answers_has_nobody_to_ask() -> None:
    stream, phis = made_up(20)
    with pytest.raises(InputError, match="no readable answers"):
        panel_table(without_answers(stream), phis)


def test_calls_with_a_price_have_a_mean_cost() -> None:
    stream, phis = made_up(80, n_peers=4)
    prices = {peer: 10.0**-n for n, peer in enumerate(stream.peers)}
    table = panel_table(stream, phis, changes=(0.3,), prices=prices)
    ways = table.values["ways"]
    assert ways[EVERYONE]["cost"] == pytest.approx(sum(prices.values()))
    assert 0.0 < ways["change ≤ 0.3"]["cost"] < ways[EVERYONE]["cost"]
    assert "mean cost" in table.header
    recorded = replace(stream, events=tuple(replace(event, costs=prices) for event in stream))
    assert panel_table(recorded, phis, changes=(0.3,)).values["ways"] == ways
    with pytest.raises(InputError, match="expected all peers"):
        panel_table(stream, phis, prices={"nobody": 1.0})
