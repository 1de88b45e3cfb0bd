"""Peers as they are named: specifications, options, TOML files; and the cache of their replies."""

import json

import pytest

from sigma_lab.collect.answers import AnswerCache, Reply
from sigma_lab.collect.peers import Endpoint, PeerSettings, peer_from, read_peers, request_key, request_writer
from sigma_lab.collect.questions import TaskPrompt, read_task_prompts
from sigma_mem.cli.app import run
from sigma_mem.errors import InputError

URL = "openai:http://127.0.0.1:8000/v1#m"
QUESTION = {"id": "q", "prompt": "What?"}


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("gpt", "expected openai:"),
        ("http://x/v1", "expected openai:"),
        ("hf:m", "expected openai:"),
        ("openai:http://x/v1", "#MODEL"),
        ("openai:ftp://x/v1#m", "#MODEL"),
        ("openai:http://x:99999/v1#m", "#MODEL"),
        ("openai:http://me:word@x/v1#m", "seems to hold a key"),
        ("openai:http://x/v1?k=sk-abcdefgh1#m", "seems to hold a key"),
    ],
)
def test_a_wrong_specification_is_refused(spec, message):
    with pytest.raises(InputError, match=message):
        peer_from("a", spec, {})


@pytest.mark.parametrize(
    "values",
    [
        {"temperature": "hot"}, {"temperature": 3.0}, {"max_tokens": 0}, {"max_tokens": 1.5}, {"retries": -1},
        {"rate": 0}, {"timeout": 0}, {"template": "no place"}, {"stop": [1]}, {"body": 1}, {"unknown": 1},
        {"concurrency": True}, {"key_env": "sk-12 34"}, {"top_p": 0.0}, {"backoff": -1},
    ],
)  # fmt: skip
def test_a_wrong_option_is_refused(values):
    with pytest.raises(InputError, match=f"peer 'a'.*{next(iter(values))}"):
        peer_from("a", URL, values)


def test_a_key_must_be_there(monkeypatch):
    monkeypatch.delenv("K_OF_TEST", raising=False)
    with pytest.raises(InputError, match="K_OF_TEST is not set"):
        Endpoint(PeerSettings("a", URL, key_env="K_OF_TEST"))


def test_a_toml_file_defines_peers(tmp_path):
    file = tmp_path / "peers.toml"
    file.write_text(
        '[defaults]\ntemperature = 0.5\n[peers.a]\nspec = "openai:http://x/v1#a"\n'
        f'[peers.b]\nspec = "{URL}"\ntemperature = 1\nstop = ["x"]\nexamples = "few.jsonl"\n'
        '[peers.b.body]\nreasoning_effort = "low"\n'
    )
    tables = read_peers(file)
    a, b = (peer_from(name, table.pop("spec"), table) for name, table in tables.items())
    assert (a.temperature, b.temperature) == (0.5, 1.0)
    assert (b.stop, b.examples) == (("x",), str(tmp_path / "few.jsonl"))
    assert b.body == {"reasoning_effort": "low"}


@pytest.mark.parametrize(
    "text", ["x", "[peers]", "[peers.a]\ntop_p = 1", "[sampling]\n[peers.a]\nspec = 'x'"]
)
def test_a_wrong_toml_file_is_refused(tmp_path, text):
    file = tmp_path / "peers.toml"
    file.write_text(text)
    with pytest.raises(InputError, match=r"peers\.toml"):
        read_peers(file)


def test_wrong_names_are_refused_before_anyone_is_asked(endpoint, tmp_path, capsys):
    questions = tmp_path / "q.jsonl"
    questions.write_text(json.dumps(QUESTION))
    out = tmp_path / "a.jsonl"
    base = ["data", "answer", str(questions), "--out", str(out), "--peer", f"a={endpoint.spec}"]
    assert run([*base[:-2]]) == 2
    assert "got no peer" in capsys.readouterr().err.splitlines()[-1]
    assert run([*base, "--out", str(tmp_path / "a.csv")]) == 2
    assert not out.exists()
    assert run(base) == 0
    assert json.loads(out.read_text())["text"]


def test_the_key_of_a_request_changes_with_all_that_matters_and_nothing_else():
    task = TaskPrompt("q1", "What?")

    def key(task: TaskPrompt = task, name: str = "a", spec: str = URL, **settings: object) -> str:
        return request_key(request_writer(peer_from(name, spec, settings))(task))

    same = [key(), key(name="b"), key(rate=1.0), key(timeout=3), key(key_env="K")]
    assert {*same} == {key(TaskPrompt("q2", "What?"))}
    other = [
        key(temperature=1), key(seed=1), key(top_p=0.5), key(max_tokens=5), key(stop=["x"]), key(system="s"),
        key(template="{prompt}!"), key(body={"k": 1}), key(omit=["seed"]), key(spec=URL + "2"),
        key(TaskPrompt("q1", "Who?")),
    ]  # fmt: skip
    assert len({*other, same[0]}) == len(other) + 1
    body = request_writer(peer_from("a", URL, {"omit": ["seed"], "body": {"k": 1}}))(task)["body"]
    assert "seed" not in body
    assert body["k"] == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"), ("[]", "Expected `object`"), ("{", "as JSON"), ('{"id": "a"}', "prompt"),
        ('{"id": "a", "prompt": "x"}\n{"id": "a", "prompt": "y"}', "twice"),
    ],
)  # fmt: skip
def test_wrong_questions_are_refused_with_their_line(tmp_path, text, message):
    file = tmp_path / "q.jsonl"
    file.write_text(text)
    with pytest.raises(InputError, match=message):
        read_task_prompts(file)


# --- the cache ---


def test_the_cache_gives_back_what_was_added_and_refuses_another_file(tmp_path):
    path, said = tmp_path / "c.db", Reply(text="süß\n", tokens_in=3, seconds=0.5)
    with AnswerCache(path) as cache:
        cache.add([("k1", Reply(error="no", down=True)), ("k2", said)])
        cache.add([("k1", Reply(text="yes"))])
    with AnswerCache(path) as cache:
        found = {key: reply for key, (_, reply) in cache.replies.items()}
    assert found == {"k1": Reply(text="yes"), "k2": said}
    path.write_bytes(b'{"key": "k1"}\n' * 100)
    with pytest.raises(InputError, match=r"c\.db: file is not a database"):
        AnswerCache(path)
