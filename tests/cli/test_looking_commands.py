"""The commands that only read: trust, decisions, inspect with its trend."""

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
    at = json.loads(capsys.readouterr().out)["peers"]
    assert run(["trust", "-m", file, "--json"]) == 0
    overall = json.loads(capsys.readouterr().out)["peers"]
    assert at["b$b[x]"]["prob"] > at["ann"]["prob"]
    assert overall["ann"]["effective"] == pytest.approx(9, rel=0.01)
    assert run(["trust", "-m", file]) == 0
    out = capsys.readouterr().out
    assert "evidence" in out
    assert "last label" in out
    assert "counts only tasks that the peer was asked" in out


def test_history_and_its_trend(file, capsys) -> None:
    assert run(["inspect", "-m", file, "--peer", "ann", "--last", "3"]) == 0
    out = capsys.readouterr().out
    assert "[red]8?" in out
    assert "▁▁▁▁█████" in out
    assert run(["inspect", "-m", file, "--peer", "zoe"]) == 2


def test_decisions_page_by_page(file, capsys) -> None:
    assert run(["decisions", "-m", file, "--last", "4", "--json"]) == 0
    page = json.loads(capsys.readouterr().out)["decisions"]
    assert [made["question"] for made in page] == [f"[red]{i}?" for i in (8, 7, 6, 5)]
    assert run(["decisions", "-m", file, "--last", "4", "--before", page[-1]["id"]]) == 0
    out = capsys.readouterr().out
    assert "[red]4?" in out
    assert "[red]5?" not in out
    assert "older decisions: --before" in out


def test_inspect_shows_the_trend(file, capsys) -> None:
    assert run(["inspect", "-m", file]) == 0
    assert "▁▁▁▁█████" in capsys.readouterr().out


def test_names_and_texts_are_printed_as_they_are(tmp_path, capsys) -> None:
    """What looks like markup or an emoji's name to a terminal library is part of a name here."""
    path, peers = str(tmp_path / "memory.db"), ("llama[int4]", "[/x]", ":smile:")
    with SigmaMem(peers, path, encoder="hashed") as mem:
        d = mem.vote("Is [/b] closed?", dict.fromkeys(peers, "[red]"), ref="t")
        mem.feedback(d, dict.fromkeys(peers, True), source="[/s]")
    commands = [
        ["vote", "Is [/b] closed?", "-a", "llama[int4]=[red]"],
        ["trust"], ["inspect", "--peer", "[/x]"], ["decisions"], ["inspect"], ["sources"], ["prices"],
        ["refold", str(tmp_path / "new.db")],
    ]  # fmt: skip
    for command in commands:
        assert run([*command, "-m", path]) == 0
        said = capsys.readouterr().out
        if command[0] in ("vote", "trust", "prices") or command == ["inspect"]:
            assert all(peer in said for peer in peers), command
        if command[0] in ("decisions", "inspect"):
            assert "Is [/b] closed?" in said
        if command[0] == "sources":
            assert "[/s]" in said


def test_prices_are_shown_beside_a_writer(tmp_path, capsys) -> None:
    path = tmp_path / "memory.db"
    with SigmaMem(["ann"], path, encoder="hashed") as mem:
        mem.set_price("ann", per_call=2.0)
        assert run(["prices", "-m", str(path)]) == 0
        assert "2" in capsys.readouterr().out
        assert run(["prices", "-m", str(path), "ann", "--per-call", "3"]) == 1
        assert "already open for writing" in capsys.readouterr().err


@pytest.fixture
def verdicts(tmp_path):
    path = tmp_path / "verdicts.jsonl"
    lines = []
    for i in range(60):
        said = {"ann": "1", "bob": "1" if i % 2 else "2", "cat": "1" if i % 2 else "2"}
        answers = {peer: {"text": v, "canon": v} for peer, v in said.items()}
        correct = {peer: v == "1" for peer, v in said.items()}
        lines.append(json.dumps({"id": f"{i}", "question": "?", "answers": answers, "correct": correct}))
    path.write_text("\n".join(lines))
    return str(path)


def test_pool_says_who_errs_with_whom(verdicts, tmp_path, capsys) -> None:
    assert run(["pool", verdicts, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [line["accuracy"] for line in found["peers"]] == [1.0, 0.5, 0.5]
    assert found["deceiving"][0]["peers"] == ["bob", "cat"]
    assert found["correlation"][0][1] is None  # ann is never wrong
    assert run(["pool", verdicts, "--peers", "bob,cat", "--picture", str(tmp_path / "pool.png")]) == 0
    assert "deceive together: bob and cat" in capsys.readouterr().out
    assert (tmp_path / "pool.png").stat().st_size > 1000
    assert run(["pool", verdicts, "--picture", "pool.txt"]) == 2
