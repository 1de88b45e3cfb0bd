"""Updates of models under their names: what changes, what is compared, who is named."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from madeup import made_up

from sigma_lab.bench.experiments.drift import COMPARED, by_gamma, drift_table, name_changes, played_conditions
from sigma_lab.bench.league import DEFAULT, ORACLES, row_names
from sigma_lab.bench.updates import CONDITIONS, draw_pool, ever_more, from_halfway, strongest, updated
from sigma_mem.errors import InputError
from sigma_mem.memory.settings import HORIZONS

FAIR = [name for name in row_names() if name not in ORACLES]


@given(st.integers(2, 9), st.integers(0, 99), st.data())
def test_a_draw_takes_every_model_once(n: int, seed: int, data: st.DataObject) -> None:
    peers = [f"m{i}" for i in range(n)]
    size = data.draw(st.integers(1, n))
    drawn = draw_pool(peers, size, seed)
    assert drawn == draw_pool(peers, size, seed)
    assert sorted((*drawn.pool, *drawn.others)) == peers
    assert [p for p in peers if p in drawn.pool] == list(drawn.pool)
    successors = drawn.successors(size)
    assert len(successors) == min(size, n - size)
    assert set(successors) <= set(drawn.pool)
    assert len(set(successors.values())) == len(successors)
    assert set(successors.values()) <= set(drawn.others)


def test_an_updated_name_has_the_answers_and_labels_of_its_model() -> None:
    stream, _ = made_up(100)
    found = updated(stream, ("peer0", "peer1"), {"peer1": "peer3"}, from_halfway(stream))
    assert found.peers == ("peer0", "peer1")
    for t, (old, new) in enumerate(zip(stream, found, strict=True)):
        model = "peer1" if t < 50 else "peer3"
        assert new.answers == {"peer0": old.answers["peer0"], "peer1": old.answers[model]}
        assert new.correct == {"peer0": old.correct["peer0"], "peer1": old.correct[model]}


def test_a_gradual_update_reaches_ever_more_events() -> None:
    stream, _ = made_up(1000)
    there = np.array([ever_more(stream, 1)(t, event) for t, event in enumerate(stream)])
    assert not there[:300].any()
    assert there[700:].all()
    assert there[300:433].mean() < there[433:566].mean() < there[566:700].mean()
    assert 0.4 < there[300:700].mean() < 0.6


def test_an_absent_model_leaves_its_name_absent() -> None:
    stream, _ = made_up(10)
    event = replace(stream.events[9], answers={}, correct={"peer0": 1.0})
    found = updated(
        replace(stream, events=(*stream.events[:9], event)), ("peer0",), {"peer0": "peer1"}, lambda t, e: True
    )
    assert (found.events[9].answers, found.events[9].correct) == ({}, {})
    assert set(found.events[8].answers) == {"peer0"}


def test_swapped_are_the_best_and_the_worst() -> None:
    stream, _ = made_up(100)
    drawn = draw_pool(stream.peers, 3, 0)
    found = CONDITIONS["swap"][1](stream, drawn)
    order = strongest(stream.select(peers=drawn.pool))
    assert found.began == {order[0]: 50, order[-1]: 50}
    assert found.stream.events[60].correct[order[0]] == stream.events[60].correct[order[-1]]
    assert found.stream.events[40].correct[order[0]] == stream.events[40].correct[order[0]]


def test_every_update_has_all_rows_and_every_single_gamma() -> None:
    played, left_out = played_conditions(*made_up(60, n_peers=6), None, DEFAULT, 3, (0, 1))
    assert (tuple(played), left_out) == (tuple(CONDITIONS), {})
    single = {by_gamma(read, gamma) for read in COMPARED for gamma in HORIZONS}
    for condition in played.values():
        found = condition.accuracy
        assert set(found) == {*FAIR, *single, *(f"{read} best γ" for read in COMPARED)}
        for read, against in condition.against_single().items():
            means = {gamma: np.mean(found[by_gamma(read, gamma)]) for gamma in HORIZONS}
            assert means[against["gamma"]] == max(means.values())
            assert against["difference"] == pytest.approx(100 * (np.mean(found[read]) - max(means.values())))
            assert against["own"] <= against["difference"] + 1e-9
            assert against["own_worst"] <= against["worst"] <= against["difference"] + 1e-9


def test_a_stream_with_few_models_shows_what_it_can() -> None:
    table = drift_table(*made_up(60, n_peers=3))
    assert list(table.values["conditions"]) == ["none", "swap"]
    assert list(table.values["left_out"]) == ["one", "all", "gradual"]
    assert any("needs 4 models, and the stream has 3" in line for line in table.remarks)
    with pytest.raises(InputError, match="smaller --size"):
        drift_table(*made_up(60, n_peers=3), ("one",))


def test_a_clear_update_is_named_and_nobody_else() -> None:
    stream, phis = made_up(500)
    # From the middle on peer1 is wrong wherever peer0 is right: a change that is easily seen.
    events = [
        replace(e, correct={**e.correct, "peer1": -1.0}) if t >= 250 else e for t, e in enumerate(stream)
    ]
    found = name_changes(replace(stream, events=tuple(events)), phis, {"peer1": 250}, every=50)
    (update,) = found.updates
    assert update.moved > 0.2
    assert update.delay is not None
    assert update.delay <= 100
    assert update.change_point_error is not None
    assert update.change_point_error <= 20
    assert (found.alarms, found.unchanged) == (0, 3 * 10 + 5)
    assert "updated peers named: 1 of 1" in str(found)
    quiet = name_changes(stream, phis, {}, every=50)
    assert (quiet.alarms, quiet.updates) == (0, ())
