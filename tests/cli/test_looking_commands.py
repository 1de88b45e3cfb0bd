"""The commands that look: trust, history, decisions, inspect with its trend, plot."""

from __future__ import annotations

import json

import pytest

from sigma_mem import SigmaMem
from sigma_mem.cli.app import run


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "memory.db"
    with SigmaMem(["ann", "b$b[x]"], path, encoder="hashed") as mem:
        for i in range(9):
            d = mem.vote(f"[red]{i}?", {"ann": "1", "b$b[x]": "2"})
            mem.feedback(d.id, {"ann": i > 3, "b$b[x]": True})
    return str(path)


def test_trust_at_a_question_and_overall(file, capsys) -> None:
    assert run(["trust", "-m", file, "7?", "--json"]) == 0
    at = json.loads(capsys.readouterr().out)["trust"]
    assert run(["trust", "-m", file, "--json"]) == 0
    overall = json.loads(capsys.readouterr().out)["trust"]
    assert at["b$b[x]"]["prob"] > at["ann"]["prob"]
    assert overall["ann"]["effective"] == pytest.approx(9, rel=0.01)
    assert run(["trust", "-m", file]) == 0
    assert "evidence" in capsys.readouterr().out


def test_history_and_its_trend(file, capsys) -> None:
    assert run(["history", "-m", file, "ann", "--last", "3"]) == 0
    out = capsys.readouterr().out
    assert "[red]8?" in out
    assert "▁▁▁▁█████" in out
    assert run(["history", "-m", file, "zoe"]) == 2


def test_decisions_page_by_page(file, capsys) -> None:
    assert run(["decisions", "-m", file, "--last", "4", "--json"]) == 0
    page = json.loads(capsys.readouterr().out)["decisions"]
    assert [made["question"] for made in page] == [f"[red]{i}?" for i in (8, 7, 6, 5)]
    assert run(["decisions", "-m", file, "--last", "4", "--before", page[-1]["id"]]) == 0
    out = capsys.readouterr().out
    assert "[red]4?" in out
    assert "[red]5?" not in out
    assert "older ones: --before" in out


def test_inspect_shows_the_trend(file, capsys) -> None:
    assert run(["inspect", "-m", file]) == 0
    assert "▁▁▁▁█████" in capsys.readouterr().out


def test_plot_writes_a_picture(file, tmp_path, capsys) -> None:
    picture = tmp_path / "memory.svg"
    assert run(["plot", "-m", file, "-o", str(picture), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"picture": str(picture)}
    assert picture.read_text().startswith("<?xml")
    assert run(["plot", "-m", file, "-o", str(tmp_path / "memory.txt")]) == 2
    assert run(["plot", "-m", file, "-o", str(picture), "--peers", "zoe"]) == 2
