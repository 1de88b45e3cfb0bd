"""How fast a center scores an event, on a tiny one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

pytest.importorskip("torch", reason="needs the extra [center]")

from sigma_lab.cli.bench import app
from train.tiny import tiny_center


def test_every_way_is_printed(tmp_path: Path) -> None:
    folder = tmp_path / "tiny"
    made = tiny_center()
    made.model.save_pretrained(folder)  # type: ignore[operator]
    made.writer.tokenizer.save_pretrained(folder)
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
    arguments = ["center-speed", str(stream), "--center", str(folder), "--events", "2", "--rounds", "1"]
    found = json.loads(CliRunner().invoke(app, [*arguments, "--json"], catch_exceptions=False).stdout)
    assert set(found["ratios"]) == {"fresh", "memory changed", "training step"}
    assert found["ratios"]["fresh"] == pytest.approx(found["plain"] / found["fresh"])
    assert (found["events"], found["peers"]) == (2, ["a", "b", "c"])
    # Half of the blocks at most once per event, the last one nearly free, no unembedding of all tokens.
    assert 6 / 5 < found["work"]["fresh"] < found["work"]["memory changed"]
    table = CliRunner().invoke(app, arguments, catch_exceptions=False).stdout
    assert "only the memory changed" in table
    assert f"{found['work']['fresh']:.2f}×" in table
