"""``sigma-mem paper`` with a tiny random center: all tables and figures, resumed, equal to their parts."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sigma_lab.bench.paper.cells import Cell, PaperTable
from sigma_lab.bench.paper.inputs import dataset_name, open_streams, subset_name
from sigma_lab.bench.paper.play import PaperPlay, auc, auc_within
from sigma_lab.bench.paper.report import PaperReport, write_files
from sigma_lab.bench.paper.tables import _points
from sigma_lab.bench.scores import Scores
from sigma_mem.cli.app import run
from sigma_mem.errors import InputError
from sigma_mem.events import Event, FloatArray
from sigma_mem.streams import Stream, load_stream, save_stream

SETS = ("piqa", "bbh", "superglue")


def as_dataset(event: Event, number: int) -> Event:
    name = SETS[number % 3]
    kind = ("wic", "cb")[number % 2]
    return replace(
        event, dataset=name, id=f"{name}/{kind}/{number}" if name == "superglue" else f"{name}/{number}"
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model with its tokenizer, and three streams: four peers in the attacked one."""
    pytest.importorskip("torch", reason="needs the extra [center]")
    from train.tiny import tiny_center, tiny_stream

    home = tmp_path_factory.mktemp("paper")
    made = tiny_center()
    made.model.save_pretrained(home / "model")  # type: ignore[operator]
    made.writer.tokenizer.save_pretrained(home / "model")
    save_stream(tiny_stream(40, peers=3), home / "train.jsonl")
    attacked = tiny_stream(24, peers=4)
    save_stream(
        replace(attacked, events=tuple(replace(e, id=f"cf-{e.id}") for e in attacked)), home / "cf.jsonl"
    )
    outside = tiny_stream(30, peers=3)
    events = tuple(as_dataset(e, n) for n, e in enumerate(outside))
    save_stream(replace(outside, events=events), home / "ood.jsonl")
    return home


def arguments(folder: Path, out: str, *more: str) -> list[str]:
    streams = [
        part for name in ("train", "cf", "ood") for part in (f"--{name}", str(folder / f"{name}.jsonl"))
    ]
    small = ["--steps", "2", "--margin-steps", "1", "--rows", "6", "--masks", "2", "--shares", "0.2,1"]
    small += ["--ratios", "0,0.9", "--judge-more", "8"]
    small += ["--question-tokens", "32", "--answer-tokens", "16", "--cache", str(folder / "cache")]
    return ["paper", *streams, "--center", str(folder / "model"), "--out", str(folder / out), *small, *more]


@pytest.fixture(scope="module")
def found(folder: Path) -> dict[str, Any]:
    assert run(arguments(folder, "out")) == 0
    values: dict[str, Any] = json.loads((folder / "out" / "paper.json").read_text("utf-8"))
    return values


def cells(found: dict[str, Any], key: str, row: str) -> list[Any]:
    rows = found["tables"][key]["rows"]
    return [cell["ours"] for cell in next(r for r in rows if r["row"].endswith(row))["cells"]]


def test_every_table_and_figure_is_there(found: dict[str, Any], folder: Path) -> None:
    wanted = {
        "table-1",
        "table-cf-readouts",
        "table-2",
        "table-3",
        "table-4",
        "figure-3",
        "superglue",
        "judge",
    }
    wanted |= {"attack", "peers-train", "peers-cf-3", "peers-cf-4", "peers-ood", "peers-superglue"}
    assert wanted <= set(found["tables"])
    assert sum(key.startswith("readouts-") for key in found["tables"]) == 1
    assert found["missing"] == []
    for name in ("paper.md", "paper.tex", "figure-3.png", "superglue.png"):
        assert (folder / "out" / name).stat().st_size > 500
    text = (folder / "out" / "paper.md").read_text("utf-8")
    assert "(61.01)" in text  # the paper's base of Qwen3-0.6B at CF@0
    assert "46.22" in (folder / "out" / "paper.tex").read_text("utf-8")


def test_the_judge_without_names_does_not_feel_the_attack(found: dict[str, Any]) -> None:
    accuracy = cells(found, "table-1", ": base")[::2]
    assert len(set(accuracy)) == 1
    assert any(row["row"].endswith("base, peer named") for row in found["tables"]["table-1"]["rows"])


def test_the_overall_is_pooled_over_events(found: dict[str, Any]) -> None:
    key = next(key for key in found["tables"] if key.startswith("readouts-"))
    rows = {row["row"]: [cell["ours"] for cell in row["cells"]] for row in found["tables"][key]["rows"]}
    overall = rows.pop("Overall")
    counts = np.array([int(values[0].replace(",", "")) for values in rows.values()])
    for place in range(1, len(overall)):
        column = np.array([values[place] for values in rows.values()])
        assert overall[place] == pytest.approx(column @ counts / counts.sum())


def test_nothing_is_trained_or_judged_twice(
    found: dict[str, Any], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    steering = next((folder / "out" / "steering").glob("*.safetensors"))
    before = steering.stat().st_mtime_ns
    capsys.readouterr()
    assert run([*arguments(folder, "out"), "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["prompts judged in this run"] == 0
    assert found["prompts judged in this run"] > 0
    assert again["tables"] == found["tables"]
    assert steering.stat().st_mtime_ns == before


def test_a_killed_run_keeps_what_it_judged(
    found: dict[str, Any], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = (folder / "out" / "scores.bin").read_bytes()
    other = folder / "cut"
    (other / "steering").mkdir(parents=True)
    for file in (folder / "out" / "steering").glob("*.safetensors"):
        (other / "steering" / file.name).write_bytes(file.read_bytes())
    (other / "scores.bin").write_bytes(kept[: len(kept) // 2 + 7])  # a record is torn
    capsys.readouterr()
    assert run([*arguments(folder, "cut"), "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert 0 < again["prompts judged in this run"] <= len(kept) // 40 - len(kept) // 80 + 1
    for key in ("table-1", "table-3"):
        assert again["tables"][key] == found["tables"][key]


def test_an_extra_is_missed_before_the_training(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert run(arguments(folder, "none")) == 1
    assert "needs matplotlib" in capsys.readouterr().err
    assert not (folder / "none").exists()


def test_controls_are_those_of_the_stream(folder: Path) -> None:
    streams = open_streams([folder / "train.jsonl"], [], [folder / "ood.jsonl"])
    controls = PaperPlay(streams).controls(streams.ood)  # type: ignore[arg-type]
    labels = streams.ood.labels()  # type: ignore[union-attr]
    assert controls["random"].accuracy == pytest.approx((labels > 0).mean())
    assert controls["best-fixed"].accuracy == pytest.approx((labels > 0).mean(axis=0).max())
    # B1 by hand: warmed on the training labels in their order, then every event in turn.
    alpha, beta = np.ones(3), np.ones(3)
    for c in streams.train.labels():  # type: ignore[union-attr]
        alpha, beta = 0.9 * alpha + (c > 0), 0.9 * beta + (c < 0)
    chosen = []
    for c in labels:
        chosen.append(int((alpha / (alpha + beta)).argmax()))
        alpha, beta = 0.9 * alpha + (c > 0), 0.9 * beta + (c < 0)
    np.testing.assert_array_equal(controls["beta-b1"].chosen, chosen)


def test_several_files_are_one_stream(folder: Path, tmp_path: Path) -> None:
    whole = load_stream(folder / "ood.jsonl")
    parts = []
    for name in SETS:
        part = Stream(name, whole.peers, tuple(e for e in whole if e.dataset == name))
        save_stream(part, tmp_path / f"{name}.jsonl")
        parts.append(tmp_path / f"{name}.jsonl")
    one = open_streams([], [], [folder / "ood.jsonl"]).ood
    several = open_streams([], [], parts).ood
    assert one is not None
    assert several is not None
    assert several.events == one.events
    with pytest.raises(InputError, match="share ids of events"):
        open_streams([], [], [parts[0], parts[0]])
    with pytest.raises(InputError, match="no stream to play"):
        open_streams([folder / "train.jsonl"], [], [])
    with pytest.raises(InputError, match="no peer 'zoe'"):
        open_streams([], [], parts, peers=["zoe", *whole.peers])


def test_a_peer_without_any_answer_has_no_accuracy(folder: Path, tmp_path: Path) -> None:
    whole = load_stream(folder / "ood.jsonl")
    silent = tuple(
        replace(
            e,
            answers={p: a for p, a in e.answers.items() if p != "peer2"},
            correct={p: c for p, c in e.correct.items() if p != "peer2"},
        )
        if e.dataset == "bbh"
        else e
        for e in whole
    )
    save_stream(replace(whole, events=silent), tmp_path / "ood.jsonl")
    assert run(["paper", "--ood", str(tmp_path / "ood.jsonl"), "--out", str(tmp_path / "out")]) == 0
    found = json.loads((tmp_path / "out" / "paper.json").read_text("utf-8"))
    (bbh,) = (row for row in found["tables"]["peers-ood"]["rows"] if row["row"] == "BBH")
    assert [cell["ours"] is None for cell in bbh["cells"]] == [False, False, False, True]
    assert "every row of a center: no --center" in found["missing"]
    assert "peer2 20 of 30" in (tmp_path / "out" / "paper.md").read_text("utf-8")


def test_names_are_written_as_they_are(tmp_path: Path) -> None:
    name = r"a|b_{c}$^~\d"
    table = PaperTable("key", "Title", "", ["row", "CF@0"], [(name, [Cell(1.0)])])
    write_files(PaperReport([table], [tmp_path / "figure-3.png"], [], {}), tmp_path)
    assert r"| a\|b_{c}$^~\d | 1.00 |" in (tmp_path / "paper.md").read_text("utf-8")
    latex = (tmp_path / "paper.tex").read_text("utf-8")
    assert r"a|b\_\{c\}\$\^{}\~{}\textbackslash{}d & 1.00" in latex
    assert r"\caption{Figure 3:" in latex


def test_no_difference_has_no_sign_of_minus() -> None:
    assert [_points(x) for x in (0.0, 1e-9, -0.1)] == ["+0.00", "+0.00", "+10.00"]


def test_names_of_benchmarks() -> None:
    event = Event("superglue/wic/7", "q", {}, {}, "language", "superglue")
    assert (dataset_name(event), subset_name(event)) == ("SuperGLUE", "WiC")
    assert subset_name(replace(event, dataset="piqa")) is None


def test_auc_against_all_pairs() -> None:
    rng = np.random.default_rng(0)
    utilities = rng.integers(0, 5, (40, 3)).astype(float)
    labels = np.where(rng.random((40, 3)) < 0.4, 1.0, -1.0)
    right, wrong = utilities[labels > 0], utilities[labels < 0]
    pairs = np.sign(right[:, None] - wrong[None, :])
    assert auc(utilities, labels) == pytest.approx((pairs.mean() + 1) / 2)
    one = [
        np.sign(u[c > 0][:, None] - u[c < 0][None, :]).ravel() for u, c in zip(utilities, labels, strict=True)
    ]
    assert auc_within(utilities, labels) == pytest.approx((np.concatenate(one).mean() + 1) / 2)
    assert auc(utilities, np.ones((40, 3))) is None


def test_kept_scores_know_what_a_utility_depends_on(tmp_path: Path) -> None:
    asked: list[int] = []

    def scorer(pairs: Any, readouts: FloatArray | None) -> FloatArray:
        asked.append(len(pairs))
        base = np.array([float(len("".join(pair))) for pair in pairs])
        return base if readouts is None else base + readouts.sum(axis=1)

    (tmp_path / "a").write_bytes(b"one")
    (tmp_path / "b").write_bytes(b"two")
    pairs = [("q", "a"), ("q", "bb"), ("q", "a")]
    readouts = np.array([[1.0, 0.0], [0.0, 0.0], [0.0, 1.0]])
    kept = Scores(tmp_path / "scores.bin")
    score = kept.scorer(scorer, "judge", tmp_path / "a")
    np.testing.assert_array_equal(score(pairs, None), [2.0, 3.0, 2.0])
    assert asked == [2]
    np.testing.assert_array_equal(score(pairs, readouts), [3.0, 3.0, 3.0])
    assert asked == [2, 2]  # a readout of zeros is the base judge
    again = Scores(tmp_path / "scores.bin")
    np.testing.assert_array_equal(again.scorer(scorer, "judge", tmp_path / "a")(pairs, readouts), [3.0] * 3)
    assert asked == [2, 2]
    again.scorer(scorer, "judge", tmp_path / "b")(pairs, readouts)
    assert asked == [2, 2, 2]  # another steering: only what it steers
    again.scorer(scorer, "other", tmp_path / "b")(pairs, None)
    assert asked == [2, 2, 2, 2]
