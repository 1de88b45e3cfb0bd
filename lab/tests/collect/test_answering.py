"""`sigma-mem data answer` against an endpoint that fails in every way an endpoint can."""

import gzip
import json
import os
import re
import resource
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sigma_lab.collect.peers import peer_from, read_peers
from sigma_mem.cli.app import run


def ask(
    questions: Path, *arguments: str, peers: dict[str, str], code: int = 0, **settings: Any
) -> list[dict[str, Any]]:
    """Run the command in the questions' folder, with these settings for every peer; the records it wrote."""
    out, file = questions.with_name("a.jsonl.gz"), questions.with_name("peers.toml")
    shared = {"retries": 2, "timeout": 5, "backoff": 0.01, **settings}
    lines = ["[defaults]", *(f"{name} = {json.dumps(value)}" for name, value in shared.items())]
    lines += [f'[peers.{name}]\nspec = "{spec}"' for name, spec in peers.items()]
    file.write_text("\n".join(lines))
    assert (
        run(["data", "answer", str(questions), "--out", str(out), "--peers", str(file), *arguments]) == code
    )
    return [json.loads(line) for line in gzip.decompress(out.read_bytes()).splitlines()]


def test_an_answer_is_recorded_with_all_that_was_asked(endpoint, questions, monkeypatch):
    monkeypatch.setenv("A_KEY", "s3cret")
    file = questions("one", "two")
    said = {"system": "Be brief.", "template": "Q: {prompt}"}
    records = ask(file, peers={"a": endpoint.spec}, key_env="A_KEY", temperature=0.7, max_tokens=9, **said)
    assert [(r["id"], r["peer"], r["text"]) for r in records] == [
        ("q0", "a", "you said Q: one"), ("q1", "a", "you said Q: two"),
    ]  # fmt: skip
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Q: one"}]
    sampling = {"temperature": 0.7, "top_p": 1.0, "max_tokens": 9, "seed": 0}
    body = {"model": "echo", "messages": messages, **sampling}
    assert records[0]["request"] == {"peer": endpoint.spec, "body": body}
    assert body in endpoint.bodies
    assert records[0]["model"] == "echo-1"
    assert (records[0]["tokens_in"], records[0]["tokens_out"], records[0]["finish"]) == (100, 10, "stop")
    assert endpoint.headers[0]["Authorization"] == "Bearer s3cret"
    written = b"".join(path.read_bytes() for path in file.parent.iterdir() if path.suffix != ".gz")
    assert b"s3cret" not in written + json.dumps(records).encode()


def test_peers_never_see_the_reference(endpoint, questions):
    ask(questions("one", choices=["x", "y"]), peers={"a": endpoint.spec})
    assert "secret" not in json.dumps(endpoint.bodies)


def test_few_shot_examples_come_before_the_question(endpoint, questions, tmp_path):
    shots = tmp_path / "few.jsonl"
    shots.write_text(
        '{"prompt": "1+1", "answer": "2"}\n{"prompt": "no", "answer": "no", "dataset": "other"}\n'
        '{"prompt": "yes", "answer": "sure", "dataset": "sums"}\n'
    )
    ask(questions("2+2", dataset="sums"), peers={"a": endpoint.spec}, examples=str(shots))
    assert [m["content"] for m in endpoint.bodies[0]["messages"]] == ["1+1", "2", "yes", "sure", "2+2"]


@pytest.mark.parametrize("trouble", ["status 500", "status 503", "status 429", "cut", "drop"])
def test_what_may_pass_is_asked_again(endpoint, questions, trouble):
    endpoint.script = {"one": [trouble, trouble, "ok"]}
    (record,) = ask(questions("one"), peers={"a": endpoint.spec})
    assert (record["text"], record["attempts"], endpoint.asked["one"]) == ("you said one", 3, 3)


@pytest.mark.parametrize(
    ("trouble", "asked", "reason"),
    [
        ("status 500", 3, "HTTP 500: no, Bearer s3cret (after 3 attempts)"),
        ("cut", 3, "the connection failed: IncompleteRead"),
        ("drop", 3, "the connection failed"),
        ("status 400", 1, "HTTP 400"),
        ("status 302 Location: http://127.0.0.1:9/", 1, "HTTP 302"),
        ("body <html>busy</html>", 1, "not a chat completion: <html>busy</html>"),
        ('body {"choices": []}', 1, "not a chat completion"),
        ('body {"choices": [{"message": {"content": 3}}]}', 1, "an empty answer"),
        ('body {"error": "overloaded"}', 1, "not a chat completion: overloaded"),
        ("body [[[[", 1, "not a chat completion"),
        ("body " + "[" * 100_000, 1, "not a chat completion"),
        ('body {"choices": [{"message": {"content": " "}, "finish_reason": "length"}]}', 1,
         "an empty answer (finish reason length)"),
        ('body {"choices": [{"message": {"content": "x"}, "finish_reason": "content_filter"}]}', 1, "filter"),
    ],
)  # fmt: skip
def test_what_does_not_pass_is_a_recorded_failure(endpoint, questions, trouble, asked, reason):
    endpoint.script = {"one": [trouble]}
    records = ask(questions("one", "two"), peers={"a": endpoint.spec})
    assert [record["text"] for record in records] == [None, "you said two"]
    assert reason in records[0]["error"]
    assert endpoint.asked == {"one": asked, "two": 1}


@pytest.mark.parametrize("trouble", ["stall", "drip"])
def test_a_stalled_reply_ends_at_the_deadline(endpoint, questions, trouble):
    endpoint.script = {"one": [trouble]}
    begun = time.monotonic()
    records = ask(questions("one", "two"), peers={"a": endpoint.spec}, timeout=0.3, retries=1)
    assert time.monotonic() - begun < 4
    assert records[0]["error"] == "no whole reply within 0.3 s (after 2 attempts)"
    assert records[1]["text"] == "you said two"


def test_the_key_is_not_in_an_error(endpoint, questions, monkeypatch):
    monkeypatch.setenv("A_KEY", "s3cret")
    endpoint.script = {"one": ["status 400"]}
    (record,) = ask(questions("one"), peers={"a": endpoint.spec}, key_env="A_KEY")
    assert record["error"] == "HTTP 400: no, Bearer [key]"


def test_retry_after_holds_all_requests_of_the_peer(endpoint, questions):
    endpoint.script = {"q0": ["status 429 Retry-After: 0.4", "ok"]}
    ask(questions(*(f"q{i}" for i in range(4))), peers={"a": endpoint.spec}, concurrency=1)
    gaps = [later - before for before, later in zip(endpoint.times, endpoint.times[1:], strict=False)]
    assert gaps[0] >= 0.4
    assert endpoint.asked == {"q0": 2, "q1": 1, "q2": 1, "q3": 1}


def test_failures_are_kept_until_asked_for_again(endpoint, questions):
    file = questions("one", "two")
    endpoint.script = {"one": ["status 400"]}
    ask(file, peers={"a": endpoint.spec})
    endpoint.script = {}
    assert ask(file, peers={"a": endpoint.spec})[0]["error"]
    assert endpoint.asked == {"one": 1, "two": 1}
    records = ask(file, "--retry-failed", peers={"a": endpoint.spec})
    assert [record["text"] for record in records] == ["you said one", "you said two"]
    assert endpoint.asked == {"one": 2, "two": 1}


def test_a_peer_that_is_down_is_given_up_and_the_others_go_on(endpoint, other_endpoint, questions, capsys):
    file, peers = questions(*(f"q{i}" for i in range(40))), {"a": endpoint.spec, "l": other_endpoint.spec}
    endpoint.script = {"*": ["status 401"]}
    records = ask(file, peers=peers, concurrency=1, code=1)
    assert 10 <= sum(record["peer"] == "a" for record in records) < 40
    assert sum(record["peer"] == "l" for record in records) == 40
    assert "gave up on a" in capsys.readouterr().err
    endpoint.script = {}
    records = ask(file, "--retry-failed", peers=peers)
    assert sum(record["text"] is not None for record in records) == 80


def test_the_same_is_not_asked_twice_whoever_needs_it(endpoint, questions):
    file = questions("same", "same", "other")
    peers = {"a": endpoint.spec, "b": endpoint.spec}
    records = ask(file, peers=peers)
    assert len(records) == 6
    assert endpoint.asked == {"same": 1, "other": 1}
    ask(file, peers={"b": peers["b"]}, temperature=1.0)
    assert endpoint.asked == {"same": 2, "other": 2}  # other sampling is another request
    file.with_name("a.cache.db").unlink()
    ask(file, peers={"a": endpoint.spec})  # its answers are in the file itself
    assert endpoint.asked == {"same": 2, "other": 2}


def test_answers_of_other_peers_and_questions_stay(endpoint, questions):
    ask(questions("one", "two", "three"), peers={"a": endpoint.spec})
    records = ask(questions("one", "two"), peers={"b": endpoint.spec})
    assert [(record["id"], record["peer"]) for record in records] == [
        ("q2", "a"), ("q0", "a"), ("q0", "b"), ("q1", "a"), ("q1", "b"),
    ]  # fmt: skip


def test_requests_run_side_by_side_up_to_the_limit(endpoint, questions):
    endpoint.delay = 0.1
    ask(questions(*map(str, range(12))), peers={"a": endpoint.spec}, concurrency=6)
    assert 3 <= endpoint.busiest <= 6


def test_the_rate_is_held_by_all_threads_together(endpoint, questions):
    ask(questions(*map(str, range(6))), peers={"a": endpoint.spec}, rate=600)
    times = sorted(endpoint.times)
    assert times[-1] - times[0] >= 0.45  # five intervals of a tenth of a second, less the way there


def test_tokens_and_cost_are_summed(endpoint, questions, capsys):
    endpoint.script = {"three": ["status 400"]}
    prices = {"price_in": 2, "price_out": 30.0}
    file = questions("one", "two", "three")
    records = ask(file, "--json", peers={"a": endpoint.spec}, **prices)
    (a,) = json.loads(capsys.readouterr().out)["peers"]
    assert records[0]["cost"] == pytest.approx((100 * 2 + 10 * 30) / 1e6)
    assert a["cost"] == pytest.approx(2 * (100 * 2 + 10 * 30) / 1e6)
    assert (a["tokens_in"], a["tokens_out"], a["answered"], a["failed"], a["asked"]) == (200, 20, 2, 1, 3)
    ask(file, "--json", peers={"b": endpoint.spec + "2"})
    assert json.loads(capsys.readouterr().out)["peers"][0]["cost"] is None
    ask(file, "--json", peers={"a": endpoint.spec}, **prices)
    (again,) = json.loads(capsys.readouterr().out)["peers"]
    assert (again["cost"], again["asked"]) == (a["cost"], 0)


def start(questions: Path, *arguments: str) -> subprocess.Popen[bytes]:
    script = "from sigma_mem.cli import main; main()"
    command = [sys.executable, "-c", script, "data", "answer", str(questions), *arguments]
    heard = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # a shell's background jobs ignore it
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=heard)


def wait_until(true: Any) -> None:
    limit = time.monotonic() + 60
    while not true():
        assert time.monotonic() < limit
        time.sleep(0.01)


def test_after_a_kill_nothing_is_asked_twice_and_nothing_is_lost(endpoint, questions, tmp_path):
    """Twelve are answered, four hang when the process is killed: only these and the rest are asked then."""
    prompts = [f"p{i}" for i in range(30)]
    file, cache = questions(*prompts), tmp_path / "a.cache.db"
    endpoint.script = {prompt: ["stall"] for prompt in prompts[12:]}
    out = ["--out", str(tmp_path / "a.jsonl.gz"), "--peer", f"a={endpoint.spec}"]
    process = start(file, *out)
    wait_until(lambda: endpoint.busy == 4 and len(recorded(cache)) == 12)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = endpoint.asked.copy()
    assert before == dict.fromkeys(prompts[:16], 1)
    endpoint.script = {}
    records = ask(file, peers={"a": endpoint.spec})
    assert [record["text"] for record in records] == [f"you said {prompt}" for prompt in prompts]
    assert endpoint.asked - before == dict.fromkeys(prompts[12:], 1)


def test_an_interrupt_ends_at_once_and_writes_what_is_there(endpoint, questions, tmp_path):
    file = questions("one", "two")
    endpoint.script = {"two": ["stall"]}
    process = start(file, "--out", str(tmp_path / "a.jsonl"), "--peer", f"a={endpoint.spec}")
    wait_until(lambda: endpoint.asked["two"] == 1 and len(recorded(tmp_path / "a.cache.db")) == 1)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    lines = (tmp_path / "a.jsonl").read_text().splitlines()
    assert [json.loads(line)["text"] for line in lines] == ["you said one"]


def recorded(cache: Path) -> list[Any]:
    """What a run that holds the file has recorded so far; nothing while it is writing."""
    journal = cache.with_name(f"{cache.name}-journal")
    if not cache.exists() or (journal.exists() and journal.read_bytes()[:8].strip(b"\0")):
        return []
    with closing(sqlite3.connect(f"file:{cache}?immutable=1", uri=True)) as db:
        there = db.execute("SELECT name FROM sqlite_master").fetchall()
        return db.execute("SELECT key FROM replies").fetchall() if there else []


def test_two_runs_cannot_share_a_cache(endpoint, questions, tmp_path, capsys):
    endpoint.script = {"one": ["stall"]}
    file, out = questions("one"), tmp_path / "a.jsonl.gz"
    arguments = ["data", "answer", str(file), "--out", str(out), "--peer", f"a={endpoint.spec}"]
    first = threading.Thread(target=run, args=[arguments])
    first.start()
    wait_until(lambda: endpoint.asked["one"] == 1)
    assert run(arguments) == 2
    assert "in use by another run" in capsys.readouterr().err
    endpoint.released.set()
    first.join()
    assert endpoint.asked == {"one": 1}


def test_a_disk_that_is_full_says_so_and_keeps_what_was_written(endpoint, questions, capsys):
    prompts = [f"{n} {'x' * 4000}" for n in range(8)]
    file, (soft, hard) = questions(*prompts), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (32_768, hard))  # of every file that this process writes
    try:
        ask(file, peers={"a": endpoint.spec}, concurrency=1, code=1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "make room and run the command again" in capsys.readouterr().err
    assert len(ask(file, "--json", peers={"a": endpoint.spec})) == 8
    (a,) = json.loads(capsys.readouterr().out)["peers"]
    kept = 8 - a["asked"]
    assert kept > 0
    assert [endpoint.asked[prompt] for prompt in prompts[:kept]] == [1] * kept


def test_the_command_of_the_page_runs(endpoint, tmp_path):
    """Its shell block in a fresh folder, with an endpoint of ours; and its peers.toml."""
    page = (Path(__file__).parents[3] / "docs" / "lab" / "streams.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```sh\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    with gzip.open(tmp_path / "q.jsonl.gz", "wt") as file:
        file.write('{"id": "a", "prompt": "What is 17 * 23?"}\n')
    (tmp_path / "sigma-mem").write_text(
        f"#!/bin/sh\nexec '{sys.executable}' -c 'from sigma_mem.cli import main; main()' \"$@\"\n"
    )
    (tmp_path / "sigma-mem").chmod(0o755)
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    command = ["sh", "-e", "-c", block.replace("http://127.0.0.1:8000/v1", endpoint.url)]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    with gzip.open(tmp_path / "answers.jsonl.gz", "rt") as file:
        assert [json.loads(line)["text"] for line in file] == ["you said What is 17 * 23?"]
    (toml,) = re.findall(r"^```toml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "peers.toml").write_text(toml)
    peers = [peer_from(name, t.pop("spec"), t) for name, t in read_peers(tmp_path / "peers.toml").items()]
    assert [peer.name for peer in peers] == ["zero-shot", "few-shot", "remote"]
