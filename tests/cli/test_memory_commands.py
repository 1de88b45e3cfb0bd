"""route, vote, feedback and inspect on a memory file: a round trip, then everything that can be wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from sigma_mem.cli.app import run
from sigma_mem.session import SigmaMem

QUESTION = "What is 17 * 23?"


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    path = tmp_path / "memory.db"
    with SigmaMem(["ann", "bob", "cy"], path, encoder="hashed") as mem:
        for _ in range(6):
            d = mem.vote(QUESTION, {"ann": "391", "bob": "391", "cy": "381"})
            mem.feedback(d.id, {"ann": True, "bob": False, "cy": False}, source="tests")
    return path


def values(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert run([*arguments, "--json"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    found: dict[str, Any] = json.loads(out)
    return found


def test_round_trip_on_a_new_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = ["--memory", str(tmp_path / "memory.db")]
    routed = values(capsys, "route", *file, "--peers", "a, b,c", "--encoder", "hashed", QUESTION)
    assert routed["peer"] == "a"
    assert routed["answer"] is None
    voted = values(
        capsys, "vote", *file, "--after", routed["id"], QUESTION, "-a", "a=391", "-a", "b=7", "-a", "c=7"
    )
    assert voted["event"] == routed["event"]
    assert voted["answer"] == "7"
    taken = values(capsys, "feedback", *file, voted["id"], "a=true", "b=false", "c=-0.5", "--source", "tests")
    assert taken["labels"] == {"a": 1.0, "b": -1.0, "c": -0.5}
    again = values(capsys, "route", *file, QUESTION)
    assert again["peer"] == "a"
    assert again["probs"]["a"] > again["probs"]["c"] > again["probs"]["b"]
    seen = values(capsys, "inspect", *file)
    assert seen["events"] == 2
    assert [made["id"] for made in seen["decisions"]] == [again["id"], voted["id"], routed["id"]]
    assert seen["decisions"][1]["labels"] == {"a": 1.0, "b": -1.0, "c": -0.5}
    for _ in range(3):
        values(capsys, "feedback", *file, again["id"], "a=true", "b=false", "c=-0.5", "--source", "tests")
        again = values(capsys, "route", *file, QUESTION)
    assert again["probs"]["a"] > 0.5 > again["probs"]["c"] > again["probs"]["b"]


def test_ask_goes_on_by_its_ref(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = ["--memory", str(tmp_path / "memory.db"), "--ref", "t7"]
    first = values(capsys, "ask", *file, "--peers", "a,b,c", "--encoder", "hashed", QUESTION)
    assert (first["next"], first["asked"]) == ("a", [])
    second = values(capsys, "ask", *file, QUESTION, "-a", "a=391")
    assert (second["next"], second["asked"], second["answer"]) == ("b", ["a"], "391")
    third = values(capsys, "ask", *file, QUESTION, "-a", "b=391")
    assert (third["next"], third["asked"], third["event"]) == (None, ["a", "b"], first["event"])
    assert run(["ask", *file, QUESTION]) == 0
    assert "enough: the rest would change the answer with a chance of 0%" in capsys.readouterr().out


def test_canon_says_how_answers_are_compared(memory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    task = ["--memory", str(memory), QUESTION, "-a", 'bob={"x": 1, "y": 2}', "-a", 'cy={"y":2,"x":1}']
    for command in ("vote", "decide"):
        canons = values(capsys, command, *task, "--canon", "json")["canons"]
        assert canons == {"bob": '{"x": 1, "y": 2}', "cy": '{"x": 1, "y": 2}'}
    assert run(["vote", *task, "--canon", "essay"]) == 2
    assert "canon is 'essay'; expected one of auto, number" in capsys.readouterr().err


def test_amended_feedback_replaces(memory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = ["--memory", str(memory)]
    d = values(capsys, "route", *file, QUESTION)["id"]
    values(capsys, "feedback", *file, d, "ann=false")
    assert run(["feedback", *file, d, "ann=true"]) == 2
    assert "amend" in capsys.readouterr().err
    values(capsys, "feedback", *file, d, "ann=true", "--amend")
    assert values(capsys, "inspect", *file)["decisions"][0]["labels"] == {"ann": 1.0}


@pytest.mark.parametrize(
    "read",
    ["calibrated-vote", "expert-vote", "m-vote", "majority", "posterior", "posterior-no-g"],
)
def test_every_vote(memory: Path, capsys: pytest.CaptureFixture[str], read: str) -> None:
    answers = ["-a", "ann=391", "-a", "bob=5", "-a", "cy=5"]
    found = values(capsys, "vote", "--memory", str(memory), QUESTION, *answers, "--read", read)
    assert found["read"].startswith(read)
    # Six labels tell peers apart of which one is always right and the others never.
    assert found["peer"] == ("bob" if read == "majority" else "ann")


def test_decide_follows_the_vote_that_labels_prefer(memory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    task = ["--memory", str(memory), QUESTION, "-a", "ann=391", "-a", "bob=5", "-a", "cy=5"]
    found = values(capsys, "decide", *task)
    assert found["read"] == "adaptive"
    assert found["peer"] == "ann"
    assert run(["vote", *task, "--read", "adaptive"]) == 2
    assert "read is 'adaptive'; expected one of" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["vote", "decide"])
def test_min_confidence_abstains(memory: Path, capsys: pytest.CaptureFixture[str], command: str) -> None:
    task = [command, "--memory", str(memory), QUESTION, "-a", "ann=391", "-a", "bob=5"]
    assert values(capsys, *task, "--min-confidence", "0")["peer"] == "ann"
    assert values(capsys, *task, "--min-confidence", "1")["peer"] is None
    assert run([*task, "--min-confidence", "1"]) == 0
    assert "nobody: not sure enough" in capsys.readouterr().out


def test_inspect_tells_what_the_state_holds(memory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    seen = values(capsys, "inspect", "--memory", str(memory))
    with SigmaMem(path=memory) as mem:
        state = mem.state
        assert seen["votes"] == mem.trust().votes
        assert seen["relation"]["ann"]["bob"] == state.G[0, 1]
        rate, labels = state.overall()
        assert seen["peers"]["cy"]["prob"] == rate[2]
        assert seen["peers"]["cy"]["effective"] == labels[2]
        assert seen["peers"]["cy"]["labels"] == 6
        assert seen["peers"]["ann"]["trend"] == [1.0] * 6


def test_inspect_tells_how_many_labels_a_record_rests_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "memory.db"
    with SigmaMem(["ann", "bob"], path, encoder="hashed") as mem:
        for i in range(10):
            d = mem.vote(QUESTION, {"ann": "391", "bob": "391"})
            if i < 4:
                mem.feedback(d.id, {"ann": True})
    seen = values(capsys, "inspect", "--memory", str(path))
    counted = {peer: known["effective"] for peer, known in seen["peers"].items()}
    assert counted == {"ann": pytest.approx(4.0, abs=0.02), "bob": 0.0}
    found = values(capsys, "explain", "--memory", str(path), d.id, "--peer", "ann")["basis"]
    assert found["right"] == pytest.approx(4.0, abs=0.1)
    assert (round(found["wrong"], 6), found["labels"]) == (0.0, 4)
    assert run(["explain", "--memory", str(path), d.id, "--peer", "bob"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "it has no label yet: p is the level of the pool" in printed


def test_inspect_names_copies(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "memory.db"
    with SigmaMem(["ann", "bob", "cat", "dan"], path, encoder="hashed") as mem:
        for i in range(200):
            mem.vote(QUESTION, {"ann": "1", "bob": "1", "cat": str(i % 3), "dan": str(i % 4)})
    (pair,) = values(capsys, "inspect", "--memory", str(path))["copies"]
    assert pair["peers"] == ["ann", "bob"]
    assert pair["degree"] == 1.0
    assert run(["inspect", "--memory", str(path)]) == 0
    assert "copies of one another: ann and bob (100%)" in capsys.readouterr().out


def test_inspect_tells_which_text_features_predict_correctness(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "memory.db"
    with SigmaMem(["ann", "bob"], path, encoder="hashed") as mem:
        for i in range(60):  # whoever says more is right
            texts = {"ann": "391" + " of course" * (i % 2), "bob": "381" + " of course" * (1 - i % 2)}
            d = mem.vote(QUESTION, texts)
            mem.feedback(d.id, {"ann": i % 2 == 1, "bob": i % 2 == 0})
    features = values(capsys, "inspect", "--memory", str(path))["text_features"]
    assert features["length"] > 0.1 > abs(features["code"])
    answers = ["-a", "ann=391", "-a", "bob=381 of course"]
    assert run(["vote", "--memory", str(path), QUESTION, *answers]) == 0
    out = capsys.readouterr().out
    assert out.startswith("bob")
    assert "text log-odds" in out
    assert run(["inspect", "--memory", str(path)]) == 0
    out = capsys.readouterr().out
    assert "Text features" in out
    assert "\nlength" in out
    assert "\ncode" not in out  # it has no effect


def test_explain_names_what_weighed(memory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = ["--memory", str(memory)]
    d = values(capsys, "route", *file, QUESTION)["id"]
    found = values(capsys, "explain", *file, d, "--peer", "bob", "--top", "2")
    assert (found["peer"], found["chosen"], len(found["contributions"]), found["others"]) == (
        "bob",
        "ann",
        2,
        4,
    )
    total = sum(term["share"] for term in found["contributions"]) + found["rest"]
    assert total == pytest.approx(found["score"])
    assert run(["explain", *file, d]) == 0
    assert "ann: chosen" in capsys.readouterr().out


def test_inspect_names_who_changed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "memory.db"
    with SigmaMem(["ann", "bob"], path, encoder="hashed") as mem:
        for i in range(80):
            d = mem.route(QUESTION)
            mem.feedback(d.id, {"ann": i < 50, "bob": i % 3 > 0})
        (expected,) = mem.drift()
    assert values(capsys, "inspect", "--memory", str(path))["drift"] == [asdict(expected)]
    assert run(["inspect", "--memory", str(path)]) == 0
    assert f"drift: ann (100% → 0% since {expected.since}" in capsys.readouterr().out


def test_for_people(memory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["route", "--memory", str(memory), QUESTION]) == 0
    assert capsys.readouterr().out.startswith("ann (confidence")
    assert run(["inspect", "--memory", str(memory)]) == 0
    out = capsys.readouterr().out
    assert "7 events" in out
    assert "independent votes" in out
    assert "drift: none" in out
    assert "\x1b" not in out


def test_namespaces_are_separate(memory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = ["--memory", str(memory)]
    values(capsys, "route", *file, "--namespace", "other", "--peers", "x,y", "--encoder", "hashed", QUESTION)
    seen = values(capsys, "inspect", *file, "--namespace", "other")
    assert seen["namespaces"] == ["default", "other"]
    assert list(seen["peers"]) == ["x", "y"]


def test_inspect_works_while_another_process_writes(memory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with SigmaMem(path=memory) as mem:
        d = mem.route(QUESTION)
        mem.store.flush()
        assert values(capsys, "inspect", "--memory", str(memory))["decisions"][0]["id"] == d.id
        assert run(["route", "--memory", str(memory), QUESTION]) == 1  # the writer is somebody else
        assert len(capsys.readouterr().err.splitlines()) == 1


BAD = [
    ("route --memory {} --peers a,b Q", "the memory in 'default' has"),
    ("route --memory {}.none Q", "--peers"),
    ("route --memory {}.none/m.db --peers a,b Q", "folder"),
    ("route --memory {}.none --peers a,a --encoder hashed Q", "a"),
    ("route --memory {}.none --peers a,b --encoder oracle Q", "oracle"),
    ("route --memory {}.none --peers a,b --encoder hashed --gamma 2 Q", "gamma"),
    ("route --memory {} --read best Q", "read is 'best'"),
    ("route --memory {} --after nobody Q", "nobody"),
    ("route --memory {}", "Missing argument"),
    ("route Q", "Missing option '--memory'"),
    ("vote --memory {} Q", "Missing option '--answer'"),
    ("vote --memory {} Q -a ann", "expected peer=value"),
    ("vote --memory {} Q -a ann=1 -a ann=2", "two values"),
    ("vote --memory {} Q -a zoe=1", "zoe"),
    ("feedback --memory {} nobody ann=true", "nobody"),
    ("feedback --memory {} LAST zoe=true", "zoe"),
    ("feedback --memory {} LAST ann=maybe", "expected true, false or a number"),
    ("feedback --memory {} LAST ann=1.5", "[-1, 1]"),
    ("feedback --memory {} LAST ann=nan", "[-1, 1]"),
    ("feedback --memory {}.none LAST ann=true", "no such file"),
    ("inspect --memory {}.none", "no such file"),
    ("inspect --memory {} --namespace other", "expected one of ['default']"),
    ("feedback --memory {} LAST", "--served"),
    ("sources --memory {} --undo", "--revoke"),
    ("explain --memory {} nobody", "nobody"),
    ("explain --memory {} LAST --top 0", "--top"),
    ("inspect --memory {} --peer zoe", "zoe"),
    ("bogus", "No such command"),
    ("--bogus", "No such option"),
]


@pytest.mark.parametrize(("line", "told"), BAD)
def test_bad_input_is_one_line_and_exit_code_2(
    memory: Path, capsys: pytest.CaptureFixture[str], line: str, told: str
) -> None:
    with SigmaMem(path=memory) as mem:
        last = mem.route(QUESTION).id
    before = memory.read_bytes()
    code = run(line.format(memory).replace("LAST", last).split())
    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert err.startswith("sigma-mem: ")
    assert told in err
    assert memory.read_bytes() == before


def test_a_file_that_is_no_memory_is_exit_code_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "notes.db"
    path.write_text("these are my notes, not a database at all\n" * 50)
    for command in (["route", "--peers", "a,b", "Q"], ["inspect"], ["feedback", "x", "a=true"]):
        assert run([command[0], "--memory", str(path), *command[1:]]) == 1
        assert len(capsys.readouterr().err.splitlines()) == 1
    assert path.read_text().startswith("these are my notes")


def test_a_question_from_standard_input(memory: Path) -> None:
    command = [sys.executable, "-c", "from sigma_mem.cli import main; main()"]
    arguments = ["route", "--memory", str(memory), "--json", "-"]
    done = subprocess.run([*command, *arguments], input=QUESTION, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["peer"] == "ann"
    empty = subprocess.run([*command, *arguments], input="", capture_output=True, text=True, check=False)
    assert (empty.returncode, empty.stdout) == (2, "")


def test_sources_are_listed_revoked_and_heard_again(memory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = ["--memory", str(memory)]
    d = values(capsys, "route", *file, QUESTION)["id"]
    values(capsys, "feedback", *file, d, "ann=true", "bob=false", "--source", "tests")
    values(capsys, "feedback", *file, d, "ann=false", "--source", "[liar]")
    listed = {one["name"]: one for one in values(capsys, "sources", *file)["sources"]}
    assert listed["default"]["trusted"]
    assert (listed["[liar]"]["lines"], listed["[liar]"]["trusted"]) == (1, False)
    assert values(capsys, "sources", *file, "--revoke", "[liar]") == {
        "source": "[liar]",
        "revoked": True,
        "lines": 1,
    }
    assert run(["sources", *file]) == 0
    table = capsys.readouterr().out
    assert "[liar]" in table
    assert "revoked" in table
    assert run(["feedback", *file, d, "bob=true", "--source", "[liar]"]) == 2
    assert "undo=True" in capsys.readouterr().err
    assert run(["sources", *file, "--revoke", "[liar]", "--undo"]) == 0
    assert capsys.readouterr().out == "[liar]: 1 lines of feedback count again\n"
    assert run(["feedback", *file, d, "bob=true", "--source", "bob"]) == 2
    assert "is a peer, and labels itself" in capsys.readouterr().err


def test_topics_are_taken_alone_and_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = ["--memory", str(tmp_path / "memory.db")]
    made = ["--peers", "ann,bob", "--encoder", "hashed"]
    for _ in range(3):
        routed = values(capsys, "route", *file, *made, "", "--topic", "law", "--topic", "german")
        assert routed["topics"] == ["german", "law"]
        values(capsys, "feedback", *file, routed["id"], "ann=false", "bob=true")
    assert values(capsys, "route", *file, QUESTION, "--topic", "law")["peer"] == "bob"
    answers = ["-a", "ann=1", "-a", "bob=2"]
    for command in ("vote", "decide"):
        voted = values(capsys, command, *file, QUESTION, *answers, "--topic", "law")
        assert (voted["peer"], voted["topics"]) == ("bob", ["law"])
    assert values(capsys, "ask", *file, QUESTION, "--topic", "law")["next"] == "bob"
    trusted = values(capsys, "trust", *file, "--topic", "law")["peers"]
    assert trusted["bob"]["prob"] > trusted["ann"]["prob"] + 0.2
    seen = values(capsys, "inspect", *file)
    assert list(seen["topics"]) == ["german", "law"]
    assert seen["topics"]["law"] == trusted
    assert seen["decisions"][0]["topics"] == ["law"]
    assert run(["inspect", *file]) == 0
    assert "By topic alone" in capsys.readouterr().out


def test_the_integer_0_is_refused_and_the_message_says_what_to_write(
    memory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with SigmaMem(path=memory, readonly=True) as mem:
        decision = next(iter(mem.decisions())).id
    feedback = ["feedback", decision, "--memory", str(memory), "--source", "people"]
    assert run([*feedback, "ann=1", "bob=0"]) == 2
    said = capsys.readouterr().err
    assert "bob=false for wrong, bob=0.0 for undecided, or --scores" in said
    assert values(capsys, *feedback, "ann=1", "bob=0", "--scores")["labels"] == {"ann": 1.0, "bob": -1.0}
    assert values(capsys, *feedback, "cy=0.0")["labels"] == {"cy": 0.0}


def test_a_memory_without_text_is_made_and_refolded(
    memory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new = ["--memory", str(tmp_path / "new.db")]
    route = ["route", *new, "--peers", "ann,bob", "--encoder", "hashed", "--no-text", QUESTION]
    assert run(route) == run(["route", *new, QUESTION]) == 0
    assert run(["refold", "--memory", str(memory), "--no-text", str(tmp_path / "bare.db")]) == 0
    for file, events in (("new.db", 2), ("bare.db", 6)):
        with SigmaMem(path=tmp_path / file, readonly=True) as mem:
            assert (mem.keep_text, mem.events) == (False, events)
            assert not any(QUESTION in repr(record.body) for record in mem.store.records("default"))
    capsys.readouterr()
    assert run(["route", "--memory", str(memory), "--no-text", QUESTION]) == 2
    assert "keep_text" in capsys.readouterr().err


def test_an_export_can_go_to_standard_output(
    memory: Path, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["export", "--memory", str(memory), "-"]) == 0
    printed = capfdbinary.readouterr().out
    assert run(["export", "--memory", str(memory), "memory.jsonl"]) == 0
    assert printed == (tmp_path / "memory.jsonl").read_bytes()
    assert not (tmp_path / "-").exists()
