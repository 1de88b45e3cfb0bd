"""``POST /v1/feedback``: by the completion's id, from the key that was used, once."""

import json
from types import SimpleNamespace

import httpx2
import openai
import pytest

from serve.gateway.conftest import ASK, ask, memory_of
from serve.gateway.upstreams import says
from sigma_mem.serve.keys import add_key


def send(gateway, body, key=None, **headers):
    sent = headers | ({"authorization": f"Bearer {key}"} if key else {})
    return httpx2.post(f"{gateway.url}/v1/feedback", json=body, headers=sent)


def test_a_score_is_about_everyone_who_said_the_same(start):
    gateway = start({"ann": says("391"), "bob": says("381"), "cat": says("The answer is 391.")})
    answer = ask(gateway, "sigma-mem/vote")
    done = send(gateway, {"id": answer.id, "score": 0.75}).json()
    assert done["labels"] == {"ann": 0.5, "cat": 0.5}
    assert memory_of(gateway).decision(answer.id).labels == {"ann": 0.5, "cat": 0.5}


def test_a_score_is_about_who_really_served(start):
    gateway = start({"ann": says("391"), "bob": says("381")}, mode="observe", usual="bob")
    answer = ask(gateway)
    assert send(gateway, {"id": answer.id, "score": 0}).json()["labels"] == {"bob": -1.0}


def test_labels_name_peers_and_a_tool_loop_is_one_event(start):
    gateway = start({"ann": says("391"), "bob": says("381")})
    first = ask(gateway)
    second = ask(gateway, after=first.id)
    assert send(gateway, {"id": second.id, "labels": {"ann": True, "bob": -0.5}}).status_code == 200
    assert memory_of(gateway).decision(first.id).labels == {"ann": 1.0, "bob": -0.5}


def test_what_is_unknown_or_contradicts_is_refused(start):
    gateway = start({"ann": says("391"), "bob": says("381")})
    id = ask(gateway, among=["ann"]).id
    assert send(gateway, {"id": "chatcmpl-0", "score": 1}).status_code == 404
    assert send(gateway, {"id": "chatcmpl-0", "labels": {"ann": True}}).status_code == 404
    assert send(gateway, {"id": id, "score": 1, "namespace": "elsewhere"}).status_code == 404
    assert send(gateway, {"id": id, "score": 1}).status_code == 200
    assert send(gateway, {"id": id, "score": 1}).status_code == 200  # the same again is no conflict
    conflict = send(gateway, {"id": id, "score": 0})
    assert conflict.status_code == 409
    assert conflict.json()["error"]["code"] == "conflict"
    assert send(gateway, {"id": id, "score": 0, "amend": True}).status_code == 200
    assert memory_of(gateway).decision(id).labels == {"ann": -1.0}
    for wrong in (
        {"id": id},
        {"id": id, "score": 1, "labels": {"ann": True}},
        {"id": id, "score": 2},
        {"id": id, "labels": {}},
        {"id": id, "labels": {"zoe": True}},
        {"id": id, "score": 1, "source": "somebody-else"},
        {"score": 1},
    ):
        refused = send(gateway, wrong)
        assert refused.status_code in (400, 422), wrong
        assert set(refused.json()["error"]) == {"message", "type", "code", "param"}


def test_an_idempotency_key_names_one_feedback(start):
    gateway = start({"ann": says("391"), "bob": says("381")})
    one, two = (ask(gateway, among=["ann"]).id for _ in range(2))
    key = {"idempotency-key": "job-7"}
    first, again = (send(gateway, {"id": one, "score": 1}, **key) for _ in range(2))
    assert first.json() == again.json()
    assert send(gateway, {"id": two, "score": 1}, **key).status_code == 409
    assert send(gateway, {"id": one, "score": 0}, **key).status_code == 409
    assert memory_of(gateway).sources()[0].lines == 1


@pytest.fixture
def keyed(start, tmp_path, monkeypatch):
    """A gateway whose upstream has a key, so that its own callers need one."""
    monkeypatch.setenv("ANN_KEY", "sk-of-ann")
    file = tmp_path / "keys.json"
    grants = {
        "judge": {"default": "write"},
        "other": {"default": "write"},
        "viewer": {"default": "read"},
        "stranger": {"team-b": "admin"},
    }
    keys = {name: add_key(file, name, grant, 0.0) for name, grant in grants.items()}
    gateway = start(
        {"ann": says("391"), "bob": says("381")},
        peers={"ann": {"key_env": "ANN_KEY"}},
        keys=str(file),
        audit=str(tmp_path / "audit.jsonl"),
    )
    gateway.client = openai.OpenAI(base_url=f"{gateway.url}/v1", api_key=keys["judge"], max_retries=0)
    yield SimpleNamespace(**vars(gateway), keys=keys, audit=tmp_path / "audit.jsonl")
    gateway.client.close()


def test_the_source_is_the_key_that_was_used(keyed):
    id = ask(keyed, among=["ann"]).id
    key = {"idempotency-key": "1"}
    assert send(keyed, {"id": id, "score": 1, "comment": "good"}, keyed.keys["judge"], **key).json()[
        "source"
    ] == ("judge")
    other = send(keyed, {"id": id, "score": 0}, keyed.keys["other"], **key)
    assert other.json()["source"] == "other"  # its own idempotency keys, and its own opinion
    assert {source.name for source in memory_of(keyed).sources()} >= {"judge", "other"}
    lines = [json.loads(line) for line in keyed.audit.read_text().splitlines()]
    assert [(x["key"], x["action"], x["comment"]) for x in lines] == [
        ("judge", "feedback", "good"),
        ("other", "feedback", None),
    ]


def test_a_key_of_one_namespace_needs_to_name_none(keyed):
    headers = {"authorization": f"Bearer {keyed.keys['stranger']}"}
    made = httpx2.put(f"{keyed.url}/v1/memory/team-b", json={"peers": ["bob"]}, headers=headers)
    assert made.status_code == 200
    with openai.OpenAI(base_url=f"{keyed.url}/v1", api_key=keyed.keys["stranger"], max_retries=0) as client:
        answer = client.chat.completions.create(model="sigma-mem", messages=ASK)
        assert answer.model == "bob"
        assert client.chat.completions.create(model="bob", messages=ASK).model == "bob"
        assert client.embeddings.create(model="bob", input="x").model == "bob"
        with pytest.raises(openai.NotFoundError, match="no model 'ann'"):  # no peer of that namespace
            client.chat.completions.create(model="ann", messages=ASK)
        with pytest.raises(openai.NotFoundError, match="no model 'ann'"):
            client.embeddings.create(model="ann", input="x")
    taken = send(keyed, {"id": answer.id, "score": 1}, keyed.keys["stranger"])
    assert taken.json()["labels"] == {"bob": 1.0}
    assert memory_of(keyed).events == 0
    assert memory_of(keyed, "team-b").events == 1


def test_who_may_call_what(keyed):
    body = {"model": "sigma-mem", "messages": ASK}
    calls = [
        ("/v1/chat/completions", body),
        ("/v1/chat/completions", body | {"model": "bob"}),
        ("/v1/embeddings", {"model": "bob", "input": "x"}),
        ("/v1/feedback", {"id": ask(keyed).id, "score": 1}),
    ]
    expected = {None: 401, "judge": 200, "viewer": 403, "stranger": 404}
    for path, sent in calls:
        for name, status in expected.items():
            headers = {"authorization": f"Bearer {keyed.keys[name]}"} if name else {}
            got = httpx2.post(f"{keyed.url}{path}", json=sent, headers=headers)
            assert got.status_code == status, (path, name)
    assert httpx2.get(f"{keyed.url}/v1/models").status_code == 401
    assert len(keyed.client.models.list().data) == 5
