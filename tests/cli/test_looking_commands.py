"""The commands that only read: trust, decisions, inspect with its trend, pool; and how they print names."""

import json

import pytest

from sigma_mem import SigmaMem
from sigma_mem.cli.output import console, print_json, print_table

COMMAND = "\x1b]52;c;cm0gLXJmIH4=\x07\x1b[2J\x9b2J"  # writes the clipboard, clears the screen


@pytest.fixture
def judged(file):
    with SigmaMem(["ann", "b$b[x]"], file, encoder="hashed") as mem:
        for i in range(9):
            d = mem.vote(f"[red]{i}?", {"ann": "1", "b$b[x]": "2"})
            mem.feedback(d.id, {"ann": i > 3, "b$b[x]": True})


def test_trust_at_a_question_and_overall(judged, call, values):
    at, overall = values("trust", "7?")["peers"], values("trust")["peers"]
    assert at["b$b[x]"]["prob"] > at["ann"]["prob"]
    assert overall["ann"]["effective"] == pytest.approx(9, rel=0.01)
    out = call("trust")
    for text in ("evidence", "last label", "counts only tasks that the peer was asked"):
        assert text in out


def test_history_and_its_trend(judged, call):
    out = call("inspect", "--peer", "ann", "--last", "3")
    assert "[red]8?" in out
    assert "▁▁▁▁█████" in out
    assert "▁▁▁▁█████" in call("inspect")


def test_decisions_page_by_page(judged, call, values):
    page = values("decisions", "--last", "4")["decisions"]
    assert [made["question"] for made in page] == [f"[red]{i}?" for i in (8, 7, 6, 5)]
    out = call("decisions", "--last", "4", "--before", page[-1]["id"])
    assert "[red]4?" in out
    assert "[red]5?" not in out
    assert "older decisions: --before" in out


def test_names_and_texts_are_printed_as_they_are(file, tmp_path, call):
    """What looks like markup or an emoji's name to a terminal library is part of a name here."""
    peers = ("llama[int4]", "[/x]", ":smile:")
    with SigmaMem(peers, file, encoder="hashed") as mem:
        d = mem.vote("Is [/b] closed?", dict.fromkeys(peers, "[red]"), ref="t")
        mem.feedback(d, dict.fromkeys(peers, True), source="[/s]")
    vote = ("vote", "Is [/b] closed?", "-a", "llama[int4]=[red]")
    for command in (vote, ("trust",), ("prices",), ("inspect",)):
        said = call(*command)
        assert all(peer in said for peer in peers), command
    for command in (("decisions",), ("inspect",), ("inspect", "--peer", "[/x]")):
        assert "Is [/b] closed?" in call(*command)
    assert "[/s]" in call("sources")
    call("refold", tmp_path / "new.db")


def test_no_text_commands_the_terminal(file, call, capsys):
    print_table(["peer"], [["ann" + COMMAND]], ["note " + COMMAND])
    console().print("chosen " + COMMAND)
    print_json({"answer": COMMAND})
    printed = capsys.readouterr().out
    assert not {"\x1b", "\x07", "\x9b"} & set(printed)
    assert json.loads(printed.splitlines()[-1]) == {"answer": COMMAND}
    with SigmaMem(["a", "b"], file, encoder="hashed") as mem:
        made = mem.vote("q" + COMMAND, {"a": "4" + COMMAND, "b": "5"})
        mem.feedback(made, {"a": True}, source="s" + COMMAND)
    for command in ("decisions", "inspect", "sources"):
        assert "\x1b" not in call(command)


def test_prices_are_shown_beside_a_writer(file, call):
    with SigmaMem(["ann"], file, encoder="hashed") as mem:
        mem.set_price("ann", per_call=2.0)
        assert "2" in call("prices")
        assert "already open for writing" in call("prices", "ann", "--per-call", "3", code=1)


def test_pool_says_who_errs_with_whom(tmp_path, call, values):
    path, lines = tmp_path / "verdicts.jsonl", []
    for i in range(60):
        said = {"ann": "1", "bob": "1" if i % 2 else "2", "cat": "1" if i % 2 else "2"}
        answers = {peer: {"text": v, "canon": v} for peer, v in said.items()}
        correct = {peer: v == "1" for peer, v in said.items()}
        lines.append(json.dumps({"id": f"{i}", "question": "?", "answers": answers, "correct": correct}))
    path.write_text("\n".join(lines))
    found = values("pool", path)
    assert [line["accuracy"] for line in found["peers"]] == [1.0, 0.5, 0.5]
    assert found["deceiving"][0]["peers"] == ["bob", "cat"]
    assert found["correlation"][0][1] is None  # ann is never wrong
    said = call("pool", path, "--peers", "bob,cat", "--picture", tmp_path / "pool.png")
    assert "deceive together: bob and cat" in said
    assert (tmp_path / "pool.png").stat().st_size > 1000
    call("pool", path, "--picture", "pool.txt", code=2)


def test_pool_reads_verdicts_from_a_table(tmp_path, call, values):
    path, lines = tmp_path / "verdicts.csv", ["id,task,judge,verdict,right"]
    for i in range(40):
        verdicts = {"ann": "1", "bob": "1" if i % 2 else "2"}
        lines += [f"{i},Which is better?,{judge},{said},{said == '1'}" for judge, said in verdicts.items()]
    path.write_text("\n".join([*lines, "0,Which is better?,ann,2,false"]))
    columns = [
        "--event",
        "id",
        "--question",
        "task",
        "--peer",
        "judge",
        "--answer",
        "verdict",
        "--label",
        "right",
    ]
    found = values("pool", path, *columns)
    assert {line["peer"]: line["accuracy"] for line in found["peers"]} == {"ann": 1.0, "bob": 0.5}
    assert "dropped 1: a second answer of the same peer to the same event" in call("pool", path, *columns)
    assert "expected --score peer=column" in call("pool", path, code=2)
