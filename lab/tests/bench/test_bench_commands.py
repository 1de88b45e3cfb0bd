"""The bench commands as a user types them: one JSON object, tables, reports, clear errors."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from madeup import made_up

from sigma_lab.bench.league import row_names
from sigma_mem.cli.app import run
from sigma_mem.streams import save_stream

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def file(tmp_path: Path) -> str:
    return str(save_stream(made_up(90)[0], tmp_path / "made-up.jsonl.gz"))


def printed(capsys: Capture, *arguments: str) -> dict[str, Any]:
    assert run(["bench", *arguments, "--encoder", "hashed", "--json"]) == 0
    out = capsys.readouterr()
    assert out.err == ""  # no progress in a pipe
    found: dict[str, Any] = json.loads(out.out)
    return found


def test_cf_prints_the_agreed_object(file: str, capsys: Capture) -> None:
    found = printed(capsys, "cf", file, "--peers", "peer0,peer2,peer3", "--ratios", "0,0.5", "--seed", "0")
    assert (found["events"], found["peers"]) == (90, ["peer0", "peer2", "peer3"])
    assert all(list(rows) == row_names() for rows in found["ratios"].values())


def test_the_same_command_prints_the_same_object(file: str, capsys: Capture) -> None:
    first = printed(capsys, "cf", file, "--ratios", "0.7", "--limit", "60")
    assert first == printed(capsys, "cf", file, "--ratios", "0.7", "--limit", "60")
    assert first != printed(capsys, "cf", file, "--ratios", "0.7", "--limit", "60", "--seed", "1")


def test_a_pool_is_drawn_by_its_seed(file: str, capsys: Capture) -> None:
    arguments = ("cf", file, "--ratios", "0", "--limit", "40", "--pool", "3")
    pools = [printed(capsys, *arguments, "--pool-seed", seed)["peers"] for seed in ("0", "1")]
    peers = sorted(made_up(1)[0].peers)
    assert pools == [random.Random(seed).sample(peers, 3) for seed in (0, 1)]
    among = printed(capsys, *arguments, "--peers", "peer3,peer1,peer0")
    assert sorted(among["peers"]) == ["peer0", "peer1", "peer3"]


def test_what_text_features_add_can_be_told(file: str, capsys: Capture) -> None:
    arguments = ("cf", file, "--ratios", "0", "--limit", "120")
    used, unused = (
        printed(capsys, *arguments, flag)["ratios"]["0"] for flag in ("--text-features", "--no-text-features")
    )
    assert used["calibrated-vote"] != unused["calibrated-vote"]
    assert used["calibrated-route"] == unused["calibrated-route"]


@pytest.mark.parametrize(
    ("arguments", "key"),
    [
        (("mechanisms",), "mechanisms"),
        (("feedback", "--shares", "0.2,1", "--seeds", "2"), "shares"),
        (("theory", "--limit", "40", "--simulations", "20"), "theorem1"),
        (("drift", "--conditions", "one,swap", "--seeds", "1"), "conditions"),
        (("poison", "--attacks", "colluder", "--events", "20"), "sources"),
        (("confidence", "--share", "0.5", "--limit", "30"), "claims"),
    ],
)
def test_every_other_experiment_has_json(
    file: str, capsys: Capture, arguments: tuple[str, ...], key: str
) -> None:
    assert key in printed(capsys, arguments[0], file, *arguments[1:])


def test_a_warm_start_from_the_stream_itself(file: str, capsys: Capture) -> None:
    found = printed(capsys, "mechanisms", file, "--warm-share", "0.5")
    assert found["events"] == 45
    assert run(["bench", "cf", file, "--encoder", "hashed", "--warm-share", "1.5"]) == 2
    assert "--warm-share 1.5" in capsys.readouterr().err


def test_a_table_and_a_report_for_people(file: str, tmp_path: Path, capsys: Capture) -> None:
    folder = tmp_path / "report"
    assert (
        run(["bench", "cf", file, "--encoder", "hashed", "--ratios", "0,0.9", "--report", str(folder)]) == 0
    )
    out = capsys.readouterr().out
    assert "calibrated-vote" in out
    assert "best without an oracle" in out
    assert {f.name for f in folder.iterdir()} == {"report.md", "table.csv"}


def test_events_come_shuffled_or_as_they_were_recorded(file: str, capsys: Capture) -> None:
    shuffled = printed(capsys, "cf", file, "--ratios", "0", "--limit", "50")
    assert shuffled == printed(capsys, "cf", file, "--ratios", "0", "--limit", "50", "--order", "shuffled")
    recorded = printed(capsys, "cf", file, "--ratios", "0", "--limit", "50", "--order", "recorded")
    stream, _ = made_up(90)
    labels = stream.select(limit=50).labels()
    assert recorded["ratios"]["0"]["any-right"]["accuracy"] == (labels > 0).any(axis=1).mean()
    assert recorded != shuffled
    again = printed(capsys, "mechanisms", file, "--limit", "50", "--order", "recorded", "--seed", "3")
    assert again["mechanisms"]["adaptive"]["accuracy"] == recorded["ratios"]["0"]["adaptive"]["accuracy"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("cf", "FILE", "--peers", "nobody"), "no peer 'nobody'"),
        (("cf", "FILE", "--ratios", "0,x"), "expected numbers separated by commas"),
        (("cf", "FILE", "--ratios", "2"), "[0, 1]"),
        (("cf", "FILE", "--partner", "first"), "among random, weakest, last"),
        (("cf", "absent.jsonl"), "absent.jsonl"),
        (("drift", "FILE", "--conditions", "sunny"), "no condition 'sunny'"),
        (("drift", "FILE", "--conditions", "all"), "needs 6 models, and the stream has 4"),
        (("drift", "FILE", "--size", "5"), "expected 2 to 4"),
        (("cf", "FILE", "--limit", "0"), "no event left"),
        (("poison", "FILE", "--attacks", "bribe"), "no attack 'bribe'"),
        (("cf", "FILE", "--pool", "5"), "at most 4"),
        (("cf", "FILE", "--order", "any"), "'any' is not one of"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_two(
    file: str, capsys: Capture, arguments: tuple[str, ...], says: str
) -> None:
    words = [file if word == "FILE" else word for word in arguments]
    assert run(["bench", *words, "--encoder", "hashed"]) == 2
    out = capsys.readouterr()
    assert out.out == ""
    assert out.err.count("\n") == 1
    assert says in out.err
