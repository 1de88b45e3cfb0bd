"""``sigma-mem data select``: parts of a stream by domain."""

from pathlib import Path

import pytest

from sigma_mem.cli.app import run
from sigma_mem.events import Answer, Event
from sigma_mem.streams import Stream, load_stream, save_stream


def test_domains_become_datasets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    events = tuple(
        Event(f"e{n}", "?", {"a": Answer("4", "4")}, {"a": 1.0}, domain, "mixed")
        for n, domain in enumerate(("law", "computer science", "law", "art"))
    )
    save_stream(Stream("whole", ("a",), events), tmp_path / "whole.jsonl")
    given = ["data", "select", str(tmp_path / "whole.jsonl"), "--out", str(tmp_path / "part.jsonl.gz")]
    assert run([*given, "--domains", "law,computer science", "--as-datasets"]) == 0
    assert "3 events, 1 peers" in capsys.readouterr().out
    part = load_stream(tmp_path / "part.jsonl.gz")
    assert [event.dataset for event in part] == ["law", "computer science", "law"]
    assert run([*given, "--domains", "law"]) == 0
    assert load_stream(tmp_path / "part.jsonl.gz").datasets == ("mixed",)
    assert run([*given, "--domains", "music"]) == 2
