"""route, vote, feedback and inspect on a memory file: a round trip, then everything that can be wrong."""

import io
import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import asdict

import pytest

from cli.conftest import QUESTION
from sigma_mem import SigmaMem

MADE = ("--peers", "a, b,c", "--encoder", "hashed")
ANSWERS = ("-a", "ann=391", "-a", "bob=5", "-a", "cy=5")


def test_round_trip_on_a_new_file(file, values):
    routed = values("route", *MADE, QUESTION)
    assert (routed["peer"], routed["answer"]) == ("a", None)
    voted = values("vote", "--after", routed["id"], QUESTION, "-a", "a=391", "-a", "b=7", "-a", "c=7")
    assert (voted["event"], voted["answer"]) == (routed["event"], "7")
    said = ("a=true", "b=false", "c=-0.5", "--source", "tests")
    assert values("feedback", voted["id"], *said)["labels"] == {"a": 1.0, "b": -1.0, "c": -0.5}
    again = values("route", QUESTION)
    assert again["peer"] == "a"
    assert again["probs"]["a"] > again["probs"]["c"] > again["probs"]["b"]
    seen = values("inspect")
    assert seen["events"] == 2
    assert [made["id"] for made in seen["decisions"]] == [again["id"], voted["id"], routed["id"]]
    assert seen["decisions"][1]["labels"] == {"a": 1.0, "b": -1.0, "c": -0.5}
    for _ in range(3):
        values("feedback", again["id"], *said)
        again = values("route", QUESTION)
    assert again["probs"]["a"] > 0.5 > again["probs"]["c"] > again["probs"]["b"]


def test_ask_goes_on_by_its_ref(file, call, values):
    first = values("ask", "--ref", "t7", *MADE, QUESTION)
    assert (first["next"], first["asked"]) == ("a", [])
    second = values("ask", "--ref", "t7", QUESTION, "-a", "a=391")
    assert (second["next"], second["asked"], second["answer"]) == ("b", ["a"], "391")
    third = values("ask", "--ref", "t7", QUESTION, "-a", "b=391")
    assert (third["next"], third["asked"], third["event"]) == (None, ["a", "b"], first["event"])
    said = call("ask", "--ref", "t7", QUESTION)
    assert "enough: the rest would change the answer with a chance of 0%" in said


def test_canon_says_how_answers_are_compared(memory, call, values):
    task = (QUESTION, "-a", 'bob={"x": 1, "y": 2}', "-a", 'cy={"y":2,"x":1}')
    for command in ("vote", "decide"):
        canons = values(command, *task, "--canon", "json")["canons"]
        assert canons == {"bob": '{"x": 1, "y": 2}', "cy": '{"x": 1, "y": 2}'}
    assert "canon is 'essay'; expected one of auto, number" in call("vote", *task, "--canon", "essay", code=2)


def test_amended_feedback_replaces(memory, call, values):
    d = values("route", QUESTION)["id"]
    values("feedback", d, "ann=false")
    assert "amend" in call("feedback", d, "ann=true", code=2)
    values("feedback", d, "ann=true", "--amend")
    assert values("inspect")["decisions"][0]["labels"] == {"ann": 1.0}


@pytest.mark.parametrize("read", ["calibrated-vote", "m-vote", "majority", "posterior", "posterior-no-g"])
def test_every_vote(memory, values, read):
    found = values("vote", QUESTION, *ANSWERS, "--read", read)
    assert found["read"].startswith(read)
    # Six labels tell peers apart of which one is always right and the others never.
    assert found["peer"] == ("bob" if read == "majority" else "ann")


def test_decide_follows_the_vote_that_labels_prefer(memory, call, values):
    found = values("decide", QUESTION, *ANSWERS)
    assert (found["read"], found["peer"]) == ("adaptive", "ann")
    said = call("vote", QUESTION, *ANSWERS, "--read", "adaptive", code=2)
    assert "read is 'adaptive'; expected one of" in said


@pytest.mark.parametrize("command", ["vote", "decide"])
def test_min_confidence_abstains(memory, call, values, command):
    task = (command, QUESTION, "-a", "ann=391", "-a", "bob=5", "--min-confidence")
    assert values(*task, "0")["peer"] == "ann"
    assert values(*task, "1")["peer"] is None
    assert "nobody: not sure enough" in call(*task, "1")


def test_inspect_tells_what_the_state_holds(memory, values):
    seen = values("inspect")
    with SigmaMem(path=memory) as mem:
        rate, labels = mem.state.overall()
        assert seen["votes"] == mem.trust().votes
        assert seen["relation"]["ann"]["bob"] == mem.state.G[0, 1]
    assert seen["peers"]["cy"]["prob"] == rate[2]
    assert seen["peers"]["cy"]["effective"] == labels[2]
    assert seen["peers"]["cy"]["labels"] == 6
    assert seen["peers"]["ann"]["trend"] == [1.0] * 6


def test_inspect_tells_how_many_labels_a_record_rests_on(file, call, values):
    with SigmaMem(["ann", "bob"], file, encoder="hashed") as mem:
        for i in range(10):
            d = mem.vote(QUESTION, {"ann": "391", "bob": "391"})
            if i < 4:
                mem.feedback(d.id, {"ann": True})
    counted = {peer: known["effective"] for peer, known in values("inspect")["peers"].items()}
    assert counted == {"ann": pytest.approx(4.0, abs=0.02), "bob": 0.0}
    found = values("explain", d.id, "--peer", "ann")["basis"]
    assert found["right"] == pytest.approx(4.0, abs=0.1)
    assert (round(found["wrong"], 6), found["labels"]) == (0.0, 4)
    printed = " ".join(call("explain", d.id, "--peer", "bob").split())
    assert "it has no label yet: p is the level of the pool" in printed


def test_inspect_names_copies(file, call, values):
    with SigmaMem(["ann", "bob", "cat", "dan"], file, encoder="hashed") as mem:
        for i in range(200):
            mem.vote(QUESTION, {"ann": "1", "bob": "1", "cat": str(i % 3), "dan": str(i % 4)})
    assert values("inspect")["copies"] == [{"peers": ["ann", "bob"], "degree": 1.0}]
    assert "copies of one another: ann and bob (100%)" in call("inspect")


def test_inspect_tells_which_text_features_predict_correctness(file, call, values):
    with SigmaMem(["ann", "bob"], file, encoder="hashed") as mem:
        for i in range(60):  # whoever says more is right
            texts = {"ann": "391" + " of course" * (i % 2), "bob": "381" + " of course" * (1 - i % 2)}
            d = mem.vote(QUESTION, texts)
            mem.feedback(d.id, {"ann": i % 2 == 1, "bob": i % 2 == 0})
    features = values("inspect")["text_features"]
    assert features["length"] > 0.1 > abs(features["code"])
    out = call("vote", QUESTION, "-a", "ann=391", "-a", "bob=381 of course")
    assert out.startswith("bob")
    assert "text log-odds" in out
    out = call("inspect")
    assert "Text features" in out
    assert "\nlength" in out
    assert "\ncode" not in out  # it has no effect


def test_explain_names_what_weighed(memory, call, values):
    d = values("route", QUESTION)["id"]
    found = values("explain", d, "--peer", "bob", "--top", "2")
    assert (found["peer"], found["chosen"], found["others"]) == ("bob", "ann", 4)
    shares = [term["share"] for term in found["contributions"]]
    assert len(shares) == 2
    assert sum(shares) + found["rest"] == pytest.approx(found["score"])
    assert "ann: chosen" in call("explain", d)


def test_inspect_names_who_changed(file, call, values):
    with SigmaMem(["ann", "bob"], file, encoder="hashed") as mem:
        for i in range(80):
            mem.feedback(mem.route(QUESTION).id, {"ann": i < 50, "bob": i % 3 > 0})
        (expected,) = mem.drift()
    assert values("inspect")["drift"] == [asdict(expected)]
    assert f"drift: ann (100% → 0% since {expected.since}" in call("inspect")


def test_for_people(memory, call):
    assert call("route", QUESTION).startswith("ann (confidence")
    out = call("inspect")
    for text in ("7 events", "independent votes", "drift: none"):
        assert text in out
    assert "\x1b" not in out


def test_namespaces_are_separate(memory, values):
    values("route", "--namespace", "other", "--peers", "x,y", "--encoder", "hashed", QUESTION)
    seen = values("inspect", "--namespace", "other")
    assert seen["namespaces"] == ["default", "other"]
    assert list(seen["peers"]) == ["x", "y"]


def test_inspect_works_while_another_process_writes(memory, call, values):
    with SigmaMem(path=memory) as mem:
        d = mem.route(QUESTION)
        mem.store.flush()
        assert values("inspect")["decisions"][0]["id"] == d.id
        assert "already open for writing" in call("route", QUESTION, code=1)


BAD = [
    ("route --memory {} --peers a,b Q", "the memory in 'default' has"),
    ("route --memory {}.none Q", "--peers"),
    ("route --memory {}.none/m.db --peers a,b Q", "folder"),
    ("route --memory {}.none --peers a,a --encoder hashed Q", "a"),
    ("route --memory {}.none --peers a,b --encoder oracle Q", "oracle"),
    ("route --memory {}.none --peers a,b --encoder hashed --gamma 2 Q", "gamma"),
    ("route --memory {} --read best Q", "read is 'best'"),
    ("route --memory {} --after nobody Q", "nobody"),
    ("route --memory {}", "neither question, phi nor topic was given"),
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
def test_bad_input_is_one_line_and_exit_code_2(memory, call, monkeypatch, line, told):
    monkeypatch.delenv("SIGMA_MEM_MEMORY")
    with SigmaMem(path=memory) as mem:
        last = mem.route(QUESTION).id
    before = memory.read_bytes()
    assert told in call(*line.format(memory).replace("LAST", last).split(), code=2)
    assert memory.read_bytes() == before


def test_a_file_that_is_no_memory_is_exit_code_1(file, call):
    file.write_text("these are my notes, not a database at all\n" * 50)
    for command in (["route", "--peers", "a,b", "Q"], ["inspect"], ["feedback", "x", "a=true"]):
        call(*command, code=1)
    assert file.read_text().startswith("these are my notes")


def test_a_question_from_standard_input(memory, call, monkeypatch):
    program = "from sigma_mem.cli import main; main()"
    command = [sys.executable, "-c", program, "route", "--json", "-"]
    done = subprocess.run(command, input=QUESTION, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["peer"] == "ann"
    for given, told in ((b"", "nothing on standard input"), (b"\xff\xfe?", "UTF-8")):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))
        assert told in call("route", "-", code=2)


def test_sources_are_listed_revoked_and_heard_again(memory, call, values):
    d = values("route", QUESTION)["id"]
    values("feedback", d, "ann=true", "bob=false", "--source", "tests")
    values("feedback", d, "ann=false", "--source", "[liar]")
    listed = {one["name"]: one for one in values("sources")["sources"]}
    assert listed["default"]["trusted"]
    assert (listed["[liar]"]["lines"], listed["[liar]"]["trusted"]) == (1, False)
    revoked = values("sources", "--revoke", "[liar]")
    assert revoked == {"source": "[liar]", "revoked": True, "lines": 1}
    table = call("sources")
    assert "[liar]" in table
    assert "revoked" in table
    assert "undo=True" in call("feedback", d, "bob=true", "--source", "[liar]", code=2)
    told = call("sources", "--revoke", "[liar]", "--undo")
    assert told == "[liar]: 1 lines of feedback count again\n"
    assert "is a peer, and labels itself" in call("feedback", d, "bob=true", "--source", "bob", code=2)


def test_topics_are_taken_alone_and_shown(file, call, values):
    made = ("--peers", "ann,bob", "--encoder", "hashed")
    for _ in range(3):
        routed = values("route", *made, "", "--topic", "law", "--topic", "german")
        assert routed["topics"] == ["german", "law"]
        values("feedback", routed["id"], "ann=false", "bob=true")
    assert values("route", QUESTION, "--topic", "law")["peer"] == "bob"
    for command in ("vote", "decide"):
        voted = values(command, QUESTION, "-a", "ann=1", "-a", "bob=2", "--topic", "law")
        assert (voted["peer"], voted["topics"]) == ("bob", ["law"])
    assert values("ask", QUESTION, "--topic", "law")["next"] == "bob"
    trusted = values("trust", "--topic", "law")["peers"]
    assert trusted["bob"]["prob"] > trusted["ann"]["prob"] + 0.2
    seen = values("inspect")
    assert list(seen["topics"]) == ["german", "law"]
    assert seen["topics"]["law"] == trusted
    assert seen["decisions"][0]["topics"] == ["law"]
    assert "By topic alone" in call("inspect")


def test_the_integer_0_is_refused_and_the_message_says_what_to_write(memory, call, values):
    feedback = ("feedback", values("decisions")["decisions"][0]["id"], "--source", "people")
    said = call(*feedback, "ann=1", "bob=0", code=2)
    assert "bob=false for wrong, bob=0.0 for undecided, or --scores" in said
    assert values(*feedback, "ann=1", "bob=0", "--scores")["labels"] == {"ann": 1.0, "bob": -1.0}
    assert values(*feedback, "cy=0.0")["labels"] == {"cy": 0.0}


def test_a_memory_without_text_is_made_and_refolded(memory, tmp_path, call):
    new = ("route", "--memory", tmp_path / "new.db", QUESTION)
    call(*new, "--peers", "ann,bob", "--encoder", "hashed", "--no-text")
    call(*new)
    call("refold", "--no-text", tmp_path / "bare.db")
    for name, events in (("new.db", 2), ("bare.db", 6)):
        with SigmaMem(path=tmp_path / name, readonly=True) as mem:
            assert (mem.keep_text, mem.events) == (False, events)
            assert not any(QUESTION in repr(record.body) for record in mem.store.records("default"))
    assert "keep_text" in call("route", "--no-text", QUESTION, code=2)


def test_an_export_can_go_to_standard_output(memory, tmp_path, call, monkeypatch):
    monkeypatch.chdir(tmp_path)
    program = [sys.executable, "-m", "sigma_mem", "export", "-"]
    printed = subprocess.run(program, capture_output=True, check=True).stdout
    call("export", "memory.jsonl")
    assert printed == (tmp_path / "memory.jsonl").read_bytes()
    assert not (tmp_path / "-").exists()


def test_check_says_whether_a_file_is_whole(memory, tmp_path, call, values):
    with SigmaMem(path=memory) as mem:
        mem.namespace("other", ["a"], rank=2)
        assert "is whole: 14 lines in 2 namespaces" in call("check")  # next to a writer
    assert values("check")["lines"] == 14
    with closing(sqlite3.connect(memory)) as db:
        db.execute("DROP TRIGGER record_is_never_changed")
        db.execute("UPDATE record SET body = x'00' WHERE seq = 5")
        db.commit()
    assert "record 5 is damaged" in call("check", code=1)
    call("check", "-m", tmp_path / "none.db", code=2)
