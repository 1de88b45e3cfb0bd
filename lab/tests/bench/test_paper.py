"""``sigma-mem paper`` with a tiny random center: all tables and figures, resumed, equal to their parts."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sigma_lab.bench.paper.inputs import dataset_name, open_streams, subset_name
from sigma_lab.bench.paper.play import PaperPlay
from sigma_lab.bench.paper.tables import Cell, accuracy_cell, best_in
from sigma_lab.bench.row import row_of
from sigma_lab.bench.scores import Scores
from sigma_lab.bench.verdicts import auc, auc_within
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
    from train.tiny import saved_center, tiny_stream

    home = tmp_path_factory.mktemp("paper")
    saved_center(home / "model")
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
    small += ["--question-tokens", "32", "--answer-tokens", "48", "--cache", str(folder / "cache")]
    return ["paper", *streams, "--center", str(folder / "model"), "--out", str(folder / out), *small, *more]


def steered(folder: Path, out: str, *more: str) -> list[str]:
    """The same with the checkpoint that `found` trained, and less to judge."""
    (steering,) = (folder / "out" / "steering").glob("*.safetensors")
    words = arguments(folder, out, "--no-named", "--figure-3", "nobody", *more)
    center = words.index("--center")
    words[center : center + 2] = ["--steering", str(steering)]
    return words


@pytest.fixture(scope="module")
def found(folder: Path) -> dict[str, Any]:
    assert run(arguments(folder, "out")) == 0
    values: dict[str, Any] = json.loads((folder / "out" / "paper.json").read_text("utf-8"))
    return values


def cells(found: dict[str, Any], key: str, row: str) -> list[Any]:
    rows = found["tables"][key]["rows"]
    return [cell["ours"] for cell in next(r for r in rows if r["row"].endswith(row))["cells"]]


def test_every_table_and_figure_is_there(found: dict[str, Any], folder: Path) -> None:
    wanted = {"table-1", "table-cf-readouts", "table-2", "table-3", "table-4", "figure-3", "superglue"}
    wanted |= {"judge", "attack", "peers-train", "peers-cf-3", "peers-cf-4", "peers-ood", "peers-superglue"}
    assert wanted <= set(found["tables"])
    assert sum(key.startswith("readouts-") for key in found["tables"]) == 1
    assert found["missing"] == []
    for name in ("paper.md", "figure-3.png", "superglue.png"):
        assert (folder / "out" / name).stat().st_size > 500
    # The paper's base saw who answered: its figures are those of the row that names the peer.
    rows = {
        row["row"].split(": ")[-1]: row["cells"][0]["paper"] for row in found["tables"]["table-1"]["rows"]
    }
    assert (rows["base"], rows["base, peer named"]) == (None, 61.01)


def test_the_report_says_how_it_was_made(found: dict[str, Any], folder: Path) -> None:
    text = (folder / "out" / "paper.md").read_text("utf-8")
    stream = load_stream(folder / "ood.jsonl")
    for said in (
        f"streams.ood.sha256: {stream.sha256}",
        "streams.ood.grading.ood.jsonl: unknown: no ood.grading.json",
        "options.partner: random",
        "options.ood_memory: one",
        "training.cap: 0.03",
        "center options.w_g: 1.0",
        "held-out loss of the base judge: ",
    ):
        assert said in text, said
    judged = {"table-2": "8 of 24", "figure-3": "8 of 30", "judge": "CF@0: 24 of 24, outside: 30 of 30"}
    for key, table in found["tables"].items():
        counted = "N" in table["columns"] or key == "superglue" or "events judged" in " ".join(table["notes"])
        assert counted or "Events judged" in " ".join(table["notes"]), key
        assert judged.get(key, "") in " ".join(table["notes"])
    assert "in its order; ours are others" in found["tables"]["peers-ood"]["notes"][-1]


def test_no_bold_on_ties_and_intervals_over_seeds() -> None:
    assert [cell.best for cell in best_in([Cell(50.0), Cell(50.004), Cell(40.0)])] == [False] * 3
    rows = tuple(
        row_of(np.zeros(4, dtype=np.intp), np.array(r), ("a",)) for r in ([1, 1, 1, 0], [1, 1, 0, 0])
    )
    cell = accuracy_cell(rows)
    assert (cell.ours, cell.spread) == (62.5, (50.0, 75.0))
    assert cell.half == pytest.approx(98 * np.mean([np.sqrt(0.75 * 0.25), 0.5]))
    assert accuracy_cell(rows[:1]).text() == "75.00 ± 42.4"
    assert accuracy_cell(rows, here=[np.array([True, False, False, False])] * 2).ours == 100.0


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


def test_controls_are_chosen_on_the_judged_events(folder: Path) -> None:
    streams = open_streams([folder / "train.jsonl"], [], [folder / "ood.jsonl"])
    assert streams.ood is not None
    assert streams.train is not None
    play = PaperPlay(streams, judge=12, seeds=(3,))
    stream = play.ordered(streams.ood, 3)
    places = play.places(stream, 3)
    assert len(places) == 12
    controls = play.controls(lambda seed: play.ordered(streams.ood, seed))
    labels = stream.labels()
    assert controls["random"][0].accuracy == pytest.approx((labels[places] > 0).mean())
    assert controls["best-fixed"][0].accuracy == pytest.approx((labels[places] > 0).mean(axis=0).max())
    # B1 by hand: warmed on the training labels in their order, then every event in turn.
    alpha, beta = np.ones(3), np.ones(3)
    for c in play.ordered(streams.train, 3).labels():
        alpha, beta = 0.9 * alpha + (c > 0), 0.9 * beta + (c < 0)
    chosen = []
    for c in labels:
        chosen.append(int((alpha / (alpha + beta)).argmax()))
        alpha, beta = 0.9 * alpha + (c > 0), 0.9 * beta + (c < 0)
    np.testing.assert_array_equal(controls["beta-b1"][0].chosen, np.array(chosen)[places])


def test_a_warm_start_more_seeds_and_a_memory_for_each_benchmark_change_what_they_should(
    folder: Path, found: dict[str, Any]
) -> None:
    more = ("--partner", "weakest", "--seeds", "2", "--ood-memory", "each")
    assert run([*steered(folder, "other", *more), "--warm", str(folder / "train.jsonl")]) == 0
    other = json.loads((folder / "other" / "paper.json").read_text("utf-8"))
    assert "Figure 3: no center was chosen for it" in other["missing"]
    assert cells(other, "table-4", "majority")[3] == cells(found, "table-4", "majority")[3]
    row = next(r for r in other["tables"]["table-4"]["rows"] if "majority" not in r["row"])
    assert all(cell["spread"][0] <= cell["ours"] <= cell["spread"][1] for cell in row["cells"])
    assert "of 2 seeds" in other["tables"]["table-4"]["notes"][0]
    assert cells(other, "table-4", "model")[2:] != cells(found, "table-4", "model")[2:]  # warm, and apart
    assert other["tables"]["peers-cf-3"]["rows"][1] != found["tables"]["peers-cf-3"]["rows"][1]
    assert other["tables"]["attack"]["rows"]


def test_a_dry_run_counts_what_the_run_judges(
    found: dict[str, Any], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert run([*arguments(folder, "dry"), "--dry-run", "--json"]) == 0
    (plan,) = json.loads(capsys.readouterr().out)["centers"]
    assert not (folder / "dry").exists()
    # Readouts of an empty memory are the base judge's, so a run judges a few less.
    assert 0.85 * plan["total"] <= found["prompts judged in this run"] <= plan["total"]
    assert plan["prompts"]["Table 1"] == 2 * 24 * 3
    assert plan["prompts"]["Table 2"] == 2 * 8 * 4
    assert plan["prompts"]["Figure 3"] == 2 * 8 * 3  # two masks of 20 %
    assert plan["tokens"] > 16
    assert plan["hours"] > 0.0
    assert run(["paper", "--ood", str(folder / "ood.jsonl"), "--out", str(folder / "dry"), "--dry-run"]) == 2


@pytest.mark.usefixtures("found")
def test_a_judge_outside_the_pool_and_the_memory_in_words(folder: Path) -> None:
    given = steered(folder, "judged", "--words", "--trained", "2", "--judge", "9")
    assert run([*given, "--verdicts", "peer2"]) == 0
    other = json.loads((folder / "judged" / "paper.json").read_text("utf-8"))
    assert other["peers"] == ["peer0", "peer1", "peer3"]
    assert len(other["tables"]["verdicts"]["rows"]) == 2 * 4  # pools of two and three
    alone = cells(other, "verdicts", "judge outside the pool")
    assert alone[0] == pytest.approx(alone[1])  # the attack moves answers, and verdicts with them
    rows = {row["row"].split(": ")[-1] for row in other["tables"]["table-words"]["rows"]}
    assert rows >= {"base, told the record in words", "adaptive with U", "adaptive with U in words"}
    assert "adaptive with its verdicts" in other["tables"]["table-4"]["columns"]
    assert run([*given, "--verdicts", "zoe"]) == 2
    cut = arguments(folder, "cut-words", "--words", "--answer-tokens", "16")
    assert run(cut) == 2  # the record would be cut with the answer


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
    assert several.select(seed=0).events == one.select(seed=0).events
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
