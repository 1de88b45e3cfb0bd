from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sigma_mem.center.center import Center
from sigma_mem.center.pull import default_dir
from sigma_mem.cli.center import app

from .families import tiny


@pytest.fixture
def folder(tokenizer: Any, tmp_path: Path) -> Path:
    tiny("llama").save_pretrained(tmp_path / "tiny")
    tokenizer.save_pretrained(tmp_path / "tiny")
    return tmp_path / "tiny"


def test_check_says_what_was_found(folder: Path) -> None:
    done = CliRunner().invoke(app, ["check", "--center", str(folder), "--json"], catch_exceptions=False)
    found = json.loads(done.stdout)
    assert (found["blocks"], found["steered"], found["hidden"]) == (6, [3, 5], 32)
    assert (found["split"], found["shares prefix"], found["trims last block"]) == (True, True, True)
    table = CliRunner().invoke(app, ["check", "--center", str(folder)], catch_exceptions=False).stdout
    assert "fingerprint" in table
    assert found["fingerprint"] in table


def test_speed_prints_every_way(folder: Path, tmp_path: Path) -> None:
    lines = [
        {
            "id": f"e{i}",
            "dataset": "d",
            "domain": "x",
            "question": f"What is {i} + {i}?",
            "reference": str(2 * i),
            "answers": {p: {"text": f"{p} says {2 * i}", "canon": str(2 * i)} for p in "abc"},
            "correct": dict.fromkeys("abc", True),
        }
        for i in range(3)
    ]
    stream = tmp_path / "s.jsonl"
    stream.write_text("".join(json.dumps(line) + "\n" for line in lines))
    arguments = ["speed", str(stream), "--center", str(folder), "--events", "2", "--rounds", "1"]
    found = json.loads(CliRunner().invoke(app, [*arguments, "--json"], catch_exceptions=False).stdout)
    assert set(found["ratios"]) == {"fresh", "memory changed", "training step"}
    assert found["ratios"]["fresh"] == pytest.approx(found["plain"] / found["fresh"])
    assert (found["events"], found["peers"]) == (2, ["a", "b", "c"])
    # Half of the blocks at most once per event, the last one nearly free, no unembedding of all tokens.
    assert 6 / 5 < found["work"]["fresh"] < found["work"]["memory changed"]
    table = CliRunner().invoke(app, arguments, catch_exceptions=False).stdout
    assert "only the memory changed" in table
    assert f"{found['work']['fresh']:.2f}×" in table


def test_pull_finds_what_is_there(smollm2: Center) -> None:
    done = CliRunner().invoke(app, ["pull", "--json"], catch_exceptions=False)
    assert json.loads(done.stdout) == {"folder": str(default_dir())}
