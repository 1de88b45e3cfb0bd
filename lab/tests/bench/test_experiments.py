"""Each experiment on a small stream: its values, and the claims that must hold anywhere."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from madeup import made_up
from partial import with_absent_peers, without_answers

from sigma_lab.bench.aggregation import AGGREGATIONS
from sigma_lab.bench.conditions import CONDITIONS, UPDATES
from sigma_lab.bench.experiments.cf import counterfactual_table
from sigma_lab.bench.experiments.drift import DriftTable, drift_table
from sigma_lab.bench.experiments.feedback import FeedbackTable, feedback_table
from sigma_lab.bench.experiments.mechanisms import mechanism_table
from sigma_lab.bench.experiments.ood import transfer_table
from sigma_lab.bench.experiments.peers import peer_table
from sigma_lab.bench.experiments.theory import simulate_bound, theory_table
from sigma_lab.bench.league import ORACLES, row_names
from sigma_lab.bench.table import LeagueTable, Table, write_report
from sigma_lab.spectrum import signal_to_noise
from sigma_mem.errors import InputError
from sigma_mem.events import FloatArray
from sigma_mem.streams import Stream

Data = tuple[Stream, FloatArray]
OTHERS = [name for name in CONDITIONS if name not in UPDATES]


def experiments(data: Data) -> dict[str, Table]:
    stream, phis = data
    return {
        "cf": counterfactual_table(stream, phis, ratios=(0.0, 0.9)),
        "peers": peer_table(stream, phis, ratios=(0.5,)),
        "ood": transfer_table(stream, stream, {"φ": (phis, phis)}),
        "mechanisms": mechanism_table(counterfactual_table(stream, phis, ratios=(0.0,))),
        "feedback": feedback_table(stream, phis, shares=(0.1, 1.0), seeds=(0, 1)),
        "theory": theory_table(stream.select(limit=60), phis[:60], simulations=50),
        "drift": drift_table(stream, phis, (*UPDATES[:2], "swap", *OTHERS)),
    }


def test_every_experiment_is_json_and_has_a_report(tmp_path: Path) -> None:
    stream, phis = made_up(80)
    for name, result in experiments((stream, phis)).items():
        json.dumps(result.values(), allow_nan=False)
        files = write_report(result, tmp_path / name)
        assert {"report.md", "table.csv"} <= {file.name for file in files}
        assert all(file.stat().st_size > 0 for file in files)
        header, rows = result.grid()
        with (tmp_path / name / "table.csv").open(newline="", encoding="utf-8") as file:
            assert list(csv.reader(file)) == [header, *rows]
        page = (tmp_path / name / "report.md").read_text(encoding="utf-8")
        assert all(f"]({file.name})" in page for file in files if file.suffix == ".png")
    names = {file.name for file in (tmp_path / "cf").iterdir()}
    assert {"accuracy.png", "reliability.png", "domains.png", "relation.png"} <= names


def test_pools_grow_and_keep_their_first_peers(small: Data) -> None:
    table = peer_table(*small, ratios=(0.0,))
    assert list(table.pools) == [3, 4]
    assert table.pools[4].stream.peers[:3] == table.pools[3].stream.peers
    with pytest.raises(InputError, match="from 2 to 4"):
        peer_table(*small, sizes=(9,))


def test_more_feedback_helps_and_masks_are_seeded() -> None:
    data = made_up(1200)
    table = feedback_table(*data, shares=(0.02, 1.0), seeds=(0, 1, 2))
    low, full = (np.mean(table.accuracy[share]["calibrated-route"]) for share in (0.02, 1.0))
    assert full > low + 0.05
    assert len(set(table.accuracy[1.0]["adaptive"])) == 1  # with all labels there is nothing to draw
    again = feedback_table(*data, shares=(0.02, 1.0), seeds=(0, 1, 2))
    assert again.accuracy == table.accuracy


def test_feedback_has_every_row_and_says_where_adaptive_stands() -> None:
    stream, phis = made_up(300)
    table = feedback_table(stream, phis, shares=(0.0, 0.1, 1.0), seeds=(0, 1))
    fair = [name for name in row_names() if name not in ORACLES]
    for rows in table.rows.values():
        assert list(rows) == [*fair, *AGGREGATIONS]
        assert all(rows[name][0].accuracy == rows[name][1].accuracy for name in ("majority", *AGGREGATIONS))
    below = table.comparisons(0.1)["adaptive − majority"]
    pooled = [np.mean([row.correct for row in table.rows[0.1][name]], axis=0) for name in fair]
    of = dict(zip(fair, pooled, strict=True))
    assert below.difference == pytest.approx((of["adaptive"] - of["majority"]).mean())
    assert below.difference_low < below.difference < below.difference_high
    assert table.kept(1.0) == 1.0
    found = table.values()["comparisons"]["0.1"]
    assert found["adaptive − majority"]["significantly_below"] == (below.difference_high < 0)
    text = "\n".join(table.remarks())
    assert "in hindsight" in text
    assert "SIGNIFICANTLY BELOW" not in text


def test_a_mechanism_that_is_significantly_below_is_marked() -> None:
    table = feedback_table(*made_up(200), shares=(1.0,), seeds=(0,))
    worst = {**table.rows[1.0], "adaptive": table.rows[1.0]["beta-b1"]}
    marked = replace(table, rows={1.0: worst})
    assert "SIGNIFICANTLY BELOW" in marked.remarks()[1]
    assert marked.kept(1.0) is None  # nothing was gained


def test_following_the_leader_is_a_row_of_every_table_and_routes_alone_remain_without_answers() -> None:
    stream, phis = made_up(60)
    for data in ((stream, phis), (without_answers(stream), phis)):
        tables = experiments(data)
        for name in ("cf", "peers", "ood", "mechanisms"):
            table = tables[name]
            assert isinstance(table, LeagueTable)
            assert all("leader" in rows for rows in table.columns.values())
        feedback, drift = tables["feedback"], tables["drift"]
        assert isinstance(feedback, FeedbackTable)
        assert isinstance(drift, DriftTable)
        assert all("leader" in rows for rows in feedback.rows.values())
        assert all("leader" in found.accuracy for found in drift.conditions.values())
        assert ("majority" in feedback.rows[1.0]) == (data[0] is stream)
        assert ("dawid-skene" in feedback.rows[1.0]) == (data[0] is stream)
    assert list(feedback.comparisons(0.1)) == ["calibrated-route − leader"]


def test_theorem_one_holds_in_simulation_and_its_ratio_is_right() -> None:
    for mu, gamma in ((0.2, 0.9), (0.6, 0.98)):
        check = simulate_bound(mu, gamma, 800, 0.05, 800, seed=1)
        assert check.violations <= 0.05
        assert check.bound < check.lowest
        assert check.snr_simulated == pytest.approx(signal_to_noise(mu, gamma), rel=0.12)


def test_a_bound_that_is_too_high_would_be_seen() -> None:
    check = simulate_bound(0.5, 0.98, 800, 0.05, 400, seed=1)
    # Without the noise term the bound is the mean itself: about half of the memories lie below it.
    signal = 0.5 * (1 - 0.98**800)
    assert check.lowest < signal < 2 * check.mean


def test_weyl_holds_on_the_stream(small: Data) -> None:
    stream, phis = small
    table = theory_table(stream.select(limit=80), phis[:80], simulations=20)
    assert table.weyl.holds
    assert table.weyl.worst_excess > -0.5 * 0.0005  # the bound is nearly reached: it is not vacuous
    assert table.trajectory.shape == (80, 4)


def test_the_page_says_who_plays() -> None:
    page = (Path(__file__).parents[3] / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    for peer in ("gemma-2-9b-it", "Phi-3.5-mini-instruct", "Qwen2-7B-Instruct", "mathstral-7B"):
        assert f"`{peer}`" in page
    assert [name for name in row_names() if f"`{name}`" not in page] == []


@pytest.mark.parametrize("bare", [False, True])
def test_every_experiment_plays_streams_with_absent_peers(tmp_path: Path, bare: bool) -> None:
    stream, phis = made_up(60)
    partly = with_absent_peers(without_answers(stream) if bare else stream)
    for name, table in experiments((partly, phis)).items():
        header, rows = table.grid()
        words = {*header, *(row[0] for row in rows)}
        assert "theory" in name or ("majority" in words) is not bare
        json.dumps(table.values(), allow_nan=False)
        if name in ("cf", "feedback"):
            write_report(table, tmp_path / name)
