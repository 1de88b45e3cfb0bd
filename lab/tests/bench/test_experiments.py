"""Each experiment on a small stream: its values, and the claims that must hold anywhere."""

import csv
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from madeup import made_up
from partial import with_absent_peers, without_answers

from sigma_lab.bench.experiments.cf import attacked_rows, counterfactual_table, mechanism_table
from sigma_lab.bench.experiments.confidence import confidence_table
from sigma_lab.bench.experiments.drift import drift_table
from sigma_lab.bench.experiments.feedback import (
    feedback_table,
    gain_kept,
    masked_rows,
    paired_with_reference,
)
from sigma_lab.bench.experiments.panel import panel_table
from sigma_lab.bench.experiments.poison import poison_table
from sigma_lab.bench.experiments.theory import theory_table
from sigma_lab.bench.league import DEFAULT, ORACLES, row_names
from sigma_lab.bench.row import row_of
from sigma_lab.bench.table import Table
from sigma_mem.events import FloatArray
from sigma_mem.streams import Stream

Data = tuple[Stream, FloatArray]
EXPERIMENTS: dict[str, Callable[[Stream, FloatArray], Table]] = {
    "cf": lambda s, phis: counterfactual_table(s, phis, ratios=(0.0, 0.9)),
    "mechanisms": lambda s, phis: mechanism_table(s, phis),
    "feedback": lambda s, phis: feedback_table(s, phis, shares=(0.1, 1.0), seeds=(0, 1)),
    "theory": lambda s, phis: theory_table(s.select(limit=60), phis[: min(60, len(s))], simulations=50),
    "drift": lambda s, phis: drift_table(s, phis, ("none", "one", "swap")),
    "confidence": lambda s, phis: confidence_table(s, phis),
    "poison": lambda s, phis: poison_table(s, phis, ("colluder",)),
    "panel": lambda s, phis: panel_table(s, phis, (0.3,)),
}


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_is_json_and_has_a_report(tmp_path: Path, name: str) -> None:
    table = EXPERIMENTS[name](*made_up(80))
    json.dumps(table.values, allow_nan=False)
    assert table.values["stream"] == "made-up"
    assert all(len(row) == len(table.header) for row in table.rows)
    files = table.write(tmp_path)
    assert {file.name for file in files} == {"report.md", "table.csv"}
    assert all(file.stat().st_size > 0 for file in files)
    with (tmp_path / "table.csv").open(newline="", encoding="utf-8") as file:
        assert list(csv.reader(file)) == [list(table.header), *map(list, table.rows)]
    page = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert table.title in page


@pytest.mark.parametrize("name", [name for name in EXPERIMENTS if name not in ("theory", "panel")])
@pytest.mark.parametrize("bare", [False, True])
def test_every_experiment_plays_absent_peers_and_streams_without_answers(name: str, bare: bool) -> None:
    stream, phis = made_up(60)
    partly = with_absent_peers(without_answers(stream) if bare else stream)
    table = EXPERIMENTS[name](partly, phis)
    json.dumps(table.values, allow_nan=False)
    words = {*table.header, *(row[0] for row in table.rows)}
    votes = {"confidence": "vote", "poison": "calibrated-vote"}.get(name, "majority")
    assert (votes in words) is not bare
    assert ("leader" in words) is (name not in ("confidence", "poison"))


def test_cf_has_the_agreed_object_and_says_who_was_swapped(small: Data) -> None:
    stream, phis = small
    found = counterfactual_table(stream, phis, ratios=(0.0, 0.5))
    assert (found.values["events"], found.values["peers"]) == (len(stream), list(stream.peers))
    assert list(found.values["ratios"]) == ["0", "0.5"]
    for rows in found.values["ratios"].values():
        assert list(rows) == row_names()
        for row in rows.values():
            assert list(row["selections"]) == list(stream.peers)
            assert row["interval"][0] <= row["accuracy"] <= row["interval"][1]
    assert any("best without an oracle" in line for line in found.remarks)
    both = counterfactual_table(stream, phis, ratios=(0.9,), partners=("weakest", "random"))
    assert both.header[1::2] == ["CF@90 weakest", "CF@90 random"]
    assert both.values["ratios"] == both.values["partners"]["weakest"]
    assert both.values["partners"]["weakest"] != both.values["partners"]["random"]
    assert "weakest, random" in both.remarks[1]


def test_mechanisms_are_the_clean_column_by_domain(small: Data) -> None:
    stream, phis = small
    table = mechanism_table(stream, phis)
    row = attacked_rows(stream, phis, [0.0])[0.0]["knn"]
    found = table.values["mechanisms"]["knn"]
    assert found["accuracy"] == pytest.approx(row.accuracy, abs=1e-6)
    mine = [event.domain == "d1" for event in stream]
    assert found["domains"]["d1"] == pytest.approx(row.correct[mine].mean(), abs=1e-6)
    assert list(table.header[-3:]) == ["d0", "d1", "d2"]


def test_more_feedback_helps_and_masks_are_seeded() -> None:
    data = made_up(900)
    rows = masked_rows(*data, shares=(0.02, 1.0), seeds=(0, 1))
    low, full = (np.mean([row.accuracy for row in rows[s]["calibrated-route"]]) for s in (0.02, 1.0))
    assert full > low + 0.05
    assert len({row.accuracy for row in rows[1.0]["adaptive"]}) == 1  # there is nothing to draw
    assert len({row.accuracy for row in rows[0.02]["knn"]}) == 2
    again = masked_rows(*data, shares=(0.02,), seeds=(0,))
    assert again[0.02]["knn"][0].accuracy == rows[0.02]["knn"][0].accuracy


def test_feedback_has_every_row_and_says_where_adaptive_stands() -> None:
    stream, phis = made_up(300)
    rows = masked_rows(stream, phis, shares=(0.1, 1.0), seeds=(0, 1))
    fair = [name for name in row_names() if name not in ORACLES]
    assert list(rows[0.1]) == fair
    assert rows[0.1]["majority"][0].accuracy == rows[1.0]["majority"][1].accuracy
    found = paired_with_reference(rows[0.1])["adaptive − majority"]
    of = {n: np.mean([row.correct for row in rows[0.1][n]], axis=0) for n in ("adaptive", "majority")}
    assert found.difference == pytest.approx((of["adaptive"] - of["majority"]).mean())
    assert found.difference_low < found.difference < found.difference_high
    assert gain_kept(rows, 1.0) == 1.0
    nothing = {1.0: {**rows[1.0], "adaptive": rows[1.0]["beta-b1"]}}
    assert gain_kept(nothing, 1.0) is None  # nothing was gained
    wrong = row_of(np.zeros(300, dtype=np.intp), np.zeros(300), stream.peers)
    assert (
        paired_with_reference({**rows[1.0], "adaptive": [wrong]})["adaptive − majority"].difference_high < 0
    )
    table = feedback_table(stream, phis, shares=(0.1,), seeds=(0, 1))
    assert table.values["comparisons"]["0.1"]["adaptive − majority"]["significantly_below"] is False


def test_processes_change_nothing_but_the_time() -> None:
    stream, phis = made_up(60)
    several = replace(DEFAULT, processes=2)
    for make in (
        lambda setup: counterfactual_table(stream, phis, (0.0, 0.9), setup),
        lambda setup: feedback_table(stream, phis, (0.2, 1.0), (0, 1), setup),
        lambda setup: drift_table(stream, phis, ("one",), setup, seeds=(0, 1)),
    ):
        assert make(several).values == make(DEFAULT).values


def test_the_page_says_who_plays() -> None:
    page = (Path(__file__).parents[3] / "docs" / "lab" / "benchmarks.md").read_text(encoding="utf-8")
    for peer in ("gemma-2-9b-it", "Phi-3.5-mini-instruct", "Qwen2-7B-Instruct", "mathstral-7B"):
        assert f"`{peer}`" in page
    assert [name for name in row_names() if f"`{name}`" not in page] == []
