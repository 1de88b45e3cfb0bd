"""The tables with a center, through the commands: every row on the same events, and honest notes."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from madeup import made_up

from sigma_lab.bench.center import ROWS, BenchCenter, better_than_sigma, judged_events
from sigma_lab.bench.league import row_names
from sigma_lab.bench.row import TableRow
from sigma_mem.cli.app import run
from sigma_mem.events import FloatArray
from sigma_mem.streams import load_stream, save_stream

Capture = pytest.CaptureFixture[str]
JUDGED = 7


@pytest.fixture(scope="module")
def checkpoint(tiny_steering: Path) -> Path:
    """Beside it the model, and a stream of three domains and four peers."""
    from train.tiny import tiny_stream

    save_stream(tiny_stream(60, peers=4), tiny_steering.parent / "stream.jsonl")
    return tiny_steering


def arguments(checkpoint: Path, command: str, *more: str) -> list[str]:
    stream = str(checkpoint.parent / "stream.jsonl")
    steered = ["--center", str(checkpoint.parent / "model"), "--steering", str(checkpoint)]
    some = ["--judge", str(JUDGED), "--judge-after", "30", "--encoder", "hashed"]
    return ["bench", command, stream, *steered, *some, *more]


def printed(capsys: Capture, checkpoint: Path, command: str, *more: str) -> dict[str, Any]:
    assert run([*arguments(checkpoint, command, *more), "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert found["events"] == JUDGED
    assert found["center"]["judged"] == JUDGED
    assert found["center"]["played"] == 60
    return found


def check(rows: dict[str, Any]) -> None:
    assert list(rows) == [*row_names(), *ROWS]
    for row in rows.values():
        assert sum(row["selections"].values()) == JUDGED
        assert {"vs_majority", "vs_base", "vs_sigma"} <= set(row)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIGMA_MEM_CACHE", str(tmp_path / "cache"))


def test_cf_has_every_row_at_every_ratio(checkpoint: Path, capsys: Capture) -> None:
    found = printed(capsys, checkpoint, "cf", "--ratios", "0,0.9")
    assert list(found["ratios"]) == ["0", "0.9"]
    for rows in found["ratios"].values():
        check(rows)
    stream = load_stream(checkpoint.parent / "stream.jsonl", seed=0)
    labels = stream.labels()[judged_events(stream, after=30, limit=JUDGED)]
    assert found["ratios"]["0"]["any-right"]["accuracy"] == pytest.approx(
        (labels > 0).any(axis=1).mean(), abs=1e-6
    )
    # Without memory the judge goes by the answers alone, which an attack only moves from seat to seat.
    base, attacked = (rows["base"] for rows in found["ratios"].values())
    assert base["accuracy"] == attacked["accuracy"]


def test_a_smaller_pool_has_them_too(checkpoint: Path, capsys: Capture) -> None:
    first = ",".join(load_stream(checkpoint.parent / "stream.jsonl").peers[:3])
    found = printed(capsys, checkpoint, "cf", "--peers", first, "--ratios", "0.5")
    assert len(found["peers"]) == 3
    check(found["ratios"]["0.5"])


def test_mechanisms_have_them_by_domain(checkpoint: Path, capsys: Capture) -> None:
    clean = printed(capsys, checkpoint, "mechanisms")["mechanisms"]
    check(clean)
    assert set(clean["sigma"]["domains"]) <= {"d0", "d1", "d2"}


def test_routes_and_votes_are_those_of_the_centers_own_phi(checkpoint: Path, capsys: Capture) -> None:
    plain = [word for word in arguments(checkpoint, "mechanisms") if word not in ("--encoder", "hashed")]
    assert run([*plain, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["mechanisms"]
    assert rows["m-route"] == rows["m-route-learned"]
    assert run([*plain, "--encoder", "center", "--w-g", "0", "--json"]) == 0
    flat = json.loads(capsys.readouterr().out)["mechanisms"]
    assert flat["sigma"]["selections"] == flat["sigma-no-g"]["selections"]
    bare = ["bench", "mechanisms", str(checkpoint.parent / "stream.jsonl"), "--encoder", "center"]
    assert run(bare) == 2
    assert "its φ comes with the checkpoint" in capsys.readouterr().err


def test_a_warm_start_is_for_every_table_and_beta_may_have_its_own(
    checkpoint: Path, capsys: Capture, tmp_path: Path
) -> None:
    stream = load_stream(checkpoint.parent / "stream.jsonl")
    other = tmp_path / "before.jsonl"
    save_stream(replace(stream, events=tuple(replace(e, id=f"w{e.id}") for e in stream)), other)
    for command, *small in (("cf", "--ratios", "0"), ("feedback", "--shares", "1", "--seeds", "1")):
        cold = printed(capsys, checkpoint, command, *small)
        warm = printed(capsys, checkpoint, command, *small, "--warm", str(other))
        beta = printed(capsys, checkpoint, command, *small, "--warm-beta", str(other))
        rows = [
            found["shares"]["1"] if command == "feedback" else found["ratios"]["0"]
            for found in (cold, warm, beta)
        ]
        accuracy = [{name: row["accuracy"] for name, row in one.items()} for one in rows]
        assert accuracy[0] | {"beta-b1": 0} == accuracy[2] | {"beta-b1": 0}  # nothing but B1 was warmed
        assert accuracy[0] != accuracy[1]
        assert accuracy[0]["base"] == accuracy[1]["base"]  # a judge without memory has nothing to warm
    both = ["--warm", str(other), "--warm-beta", str(other)]
    assert run(arguments(checkpoint, "mechanisms", *both)) == 2


def test_feedback_has_base_and_sigma_at_every_share(checkpoint: Path, capsys: Capture) -> None:
    found = printed(capsys, checkpoint, "feedback", "--shares", "0.1,1", "--seeds", "2")
    for rows in found["shares"].values():
        assert list(rows)[-2:] == ["base", "sigma"]
    assert found["shares"]["0.1"]["base"] == found["shares"]["1"]["base"]  # it learns from nobody


def test_people_are_told_what_was_judged_and_what_is_better(
    checkpoint: Path, capsys: Capture, tmp_path: Path
) -> None:
    assert run(arguments(checkpoint, "mechanisms", "--report", str(tmp_path / "r"))) == 0
    page = (tmp_path / "r" / "report.md").read_text(encoding="utf-8")
    for text in (" ".join(capsys.readouterr().out.split()), page):
        assert f"{JUDGED} of 60 events judged" in text
        assert "better than sigma, " in text
    assert "| swapped-M |" in page


def test_a_bare_center_has_no_sigma_and_says_so(checkpoint: Path, capsys: Capture) -> None:
    bare = arguments(checkpoint, "mechanisms")
    at = bare.index("--steering")
    assert run(bare[:at] + bare[at + 2 :]) == 0
    assert "there is no row sigma" in " ".join(capsys.readouterr().out.split())
    assert run([*bare[:at], *bare[at + 2 :], "--json"]) == 0
    assert list(json.loads(capsys.readouterr().out)["mechanisms"]) == [*row_names(), "base", "zero-M"]


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (("--judge-after", "60"), "no event is left to judge"),
        (("--steering", "absent"), "there is no such file"),
    ],
)
def test_bad_choices_are_one_line(
    checkpoint: Path, capsys: Capture, more: tuple[str, ...], says: str
) -> None:
    assert run([*arguments(checkpoint, "mechanisms"), *more]) == 2
    err = capsys.readouterr().err
    assert says in err
    assert err.count("\n") == 1


def test_options_of_a_center_need_one(tmp_path: Path, capsys: Capture) -> None:
    stream = str(save_stream(made_up(20)[0], tmp_path / "s.jsonl"))
    assert run(["bench", "cf", stream, "--judge", "5"]) == 2
    assert "--center NAME" in capsys.readouterr().err


def test_without_the_extra_there_is_one_clear_error_and_without_a_center_no_torch(tmp_path: Path) -> None:
    stream = str(save_stream(made_up(20)[0], tmp_path / "s.jsonl"))
    code = (
        "import sys; sys.modules['torch'] = None\n"  # as if it were not installed
        "import importlib.util as u; found = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name == 'torch' else found(name, *a)\n"
        "from sigma_mem.cli.app import run\n"
        f"plain = run(['bench', 'mechanisms', {stream!r}, '--encoder', 'hashed', '--json'])\n"
        f"sys.exit(10 * plain + run(['bench', 'cf', {stream!r}, '--center', 'smollm2']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert json.loads(done.stdout)["events"] == 20
    assert done.stderr.count("\n") == 1
    assert "pip install 'sigma-mem[center]'" in done.stderr


def test_the_note_names_rows_above_sigma_best_first() -> None:
    right = {"any-right": "1111", "fast": "1110", "m-route": "1111", "sigma": "1100", "base": "0000"}
    rows = {name: TableRow(None, np.array([float(c) for c in text]), {}) for name, text in right.items()}
    note = better_than_sigma(rows)
    assert note.startswith("better than sigma, 50.00%: m-route +50.00 points (")
    assert "fast +25.00" in note
    assert "base" not in note
    assert "any-right" not in note  # an oracle
    assert better_than_sigma({"sigma": rows["sigma"], "base": rows["base"]}).endswith("none")


def test_hidden_labels_are_hidden_from_the_memory_and_not_from_the_grading() -> None:
    stream, phis = made_up(60)
    heard: list[FloatArray] = []

    def scorer(pairs: Any, readouts: FloatArray | None) -> FloatArray:
        if readouts is not None:
            heard.append(readouts)
        return np.arange(len(pairs), dtype=float)

    judged = list(range(50, 60))
    phi = {event.question: row for event, row in zip(stream, phis, strict=True)}
    center = BenchCenter("c", "s", scorer, phi, None, 0.9995, rows=("base", "sigma-no-g"), after=50)
    for shown in (None, np.arange(60) < 30, np.zeros(60, dtype=bool)):
        rows = center.judge(stream, shown=shown)
        expected = stream.labels()[judged, rows["base"].chosen] > 0
        np.testing.assert_array_equal(rows["base"].correct, expected)
    everything, half, nothing = (np.abs(r).sum() for r in heard)
    assert nothing == 0.0
    assert 0.0 < half != everything
