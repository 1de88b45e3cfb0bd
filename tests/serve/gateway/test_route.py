"""``model="sigma-mem"``: the official client against the gateway, over upstreams on loopback."""

import asyncio
import json
import shutil

import httpx2
import openai
import pytest

from serve.gateway.conftest import ASK, ask, memory_of
from serve.gateway.upstreams import fails, says
from sigma_mem import SigmaMem
from sigma_mem.errors import StoreError, UnknownDecisionError
from sigma_mem.ledger.fold import Fold


def test_a_route_answers_with_the_peer_its_decision_and_its_usage(start):
    gateway = start({"ann": says("391")}, peers={"ann": {"model": "ann-large", "output_price": 2.0}})
    raw = gateway.raw(model="sigma-mem", messages=ASK, seed=7)
    answer = raw.parse()
    assert answer.choices[0].message.content == "391"
    assert answer.model == "ann"
    assert answer.usage.total_tokens == 15
    assert answer.service_tier == "default"  # a field that the gateway does not know
    headers = {key: raw.headers[f"x-sigma-mem-{key}"] for key in ("decision", "peer", "attempts", "cost")}
    mem = memory_of(gateway)
    decision = mem.decision(answer.id)
    assert headers == {"decision": decision.id, "peer": "ann", "attempts": "1", "cost": "1e-05"}
    assert float(raw.headers["x-sigma-mem-confidence"]) == pytest.approx(decision.confidence, abs=1e-5)
    assert answer.sigma_mem["decision"] == decision.id
    assert decision.ref == answer.id
    (body,) = gateway.servers["ann"].bodies
    assert body == {"model": "ann-large", "messages": ASK, "seed": 7}


def test_what_an_upstream_gets_is_what_the_client_sent(start):
    """Every field but `model` and the gateway's own, down to text that UTF-8 cannot hold."""
    gateway = start({"ann": says("391")}, peers={"ann": {"model": 'a "large" one'}})
    odd = {"role": "user", "content": 'é \ud83d half a pair, \u2028 and a quote: "'}
    sent = {"messages": [*ASK, odd], "temperature": 0.1, "n": 10**25, "x": {"deep": [None, True, 1e-7]}}
    raw = json.dumps({"model": "sigma-mem", **sent, "sigma_mem": {"explore": False}})
    url = f"{gateway.url}/v1/chat/completions"
    assert httpx2.post(url, content=raw).json()["model"] == "ann"
    assert gateway.servers["ann"].bodies == [{"model": 'a "large" one', **sent}]


@pytest.mark.parametrize("model", ["sigma-mem", "sigma-mem/vote"])
def test_an_id_that_was_just_drawn_is_not_looked_up(start, monkeypatch, model):
    gateway = start({"ann": says("391"), "bob": says("381")})
    looked, event_named = [], Fold.event_named
    monkeypatch.setattr(Fold, "event_named", lambda self, ref: looked.append(ref) or event_named(self, ref))
    answer = ask(gateway, model)
    assert looked == []
    assert memory_of(gateway).decision(answer.id).ref == answer.id


def test_a_stream_passes_chunks_under_our_id_and_the_peers_name(start):
    gateway = start({"ann": says("It is 391")})
    with gateway.create(model="sigma-mem", messages=ASK, stream=True) as stream:
        chunks = list(stream)
    assert "".join(c.choices[0].delta.content or "" for c in chunks) == "It is 391 "
    assert {c.model for c in chunks} == {"ann"}
    (id,) = {c.id for c in chunks}
    mem = memory_of(gateway)
    assert mem.decision(id).peer == "ann"
    assert chunks[0].sigma_mem["decision"] == mem.decision(id).id
    assert chunks[-1].choices[0].finish_reason == "stop"


def test_usage_at_the_end_of_a_stream_only_where_it_was_asked_for(start):
    gateway = start({"ann": says("It is 391")}, peers={"ann": {"input_price": 1.0}})
    without = list(gateway.create(model="sigma-mem", messages=ASK, stream=True))
    with_usage = list(
        gateway.create(model="sigma-mem", messages=ASK, stream=True, stream_options={"include_usage": True})
    )
    assert all(c.choices for c in without)
    assert with_usage[-1].usage.total_tokens == 15
    assert with_usage[-1].sigma_mem["cost"] == pytest.approx(10 / 1e6)
    assert all(body["stream_options"] == {"include_usage": True} for body in gateway.servers["ann"].bodies)


def test_routes_explore_unless_told_otherwise(start):
    gateway = start({"ann": says("1"), "bob": says("2")})
    mem = memory_of(gateway)
    by_default = mem.decision(ask(gateway).id)
    assert by_default.read == "exploring-route"
    assert by_default.propensity == 0.5
    fixed = mem.decision(ask(gateway, explore=False).id)
    assert (fixed.read, fixed.propensity) == ("calibrated-route", 1.0)
    settled = start({"ann": says("1"), "bob": says("2")}, explore=False)
    assert memory_of(settled).decision(ask(settled).id).propensity == 1.0


def test_options_restrict_and_connect_decisions(start):
    gateway = start({"ann": says("1"), "bob": says("2"), "cat": says("3")})
    mem = memory_of(gateway)
    served = {ask(gateway, among=["bob", "cat"]).model for _ in range(8)}
    assert served <= {"bob", "cat"}
    first = ask(gateway, among=["cat"])
    again = ask(gateway, among=["bob"], after=first.id)
    assert again.model == "bob"
    assert mem.decision(again.id).event == mem.decision(first.id).event
    for wrong in (
        {"among": ["dan"]},
        {"among": []},
        {"explore": "yes"},
        {"topic": ""},
        {"colour": 1},
        {"after": "chatcmpl-0"},
    ):
        with pytest.raises((openai.BadRequestError, openai.NotFoundError)) as refused:
            ask(gateway, **wrong)
        assert set(refused.value.body) == {"message", "type", "code", "param"}


def test_namespaces_are_apart(start):
    gateway = start({"ann": says("1")})
    asyncio.run(gateway.context.memories.create("team-b", ["ann", "zoe"]))
    answer = ask(gateway, namespace="team-b")
    assert memory_of(gateway, "team-b").decision(answer.id).ref == answer.id
    with pytest.raises(UnknownDecisionError):
        memory_of(gateway).decision(answer.id)
    with pytest.raises(openai.NotFoundError):
        ask(gateway, namespace="team-c")


@pytest.mark.parametrize("model", ["sigma-mem", "sigma-mem/vote", "sigma-mem/ask"])
def test_a_decision_is_on_disk_before_its_id_leaves_and_holds_no_text(start, tmp_path, model):
    file = tmp_path / "memory.db"
    gateway = start({"ann": says("Behind the Matterhorn."), "bob": says("In Timbuktu.")}, path=str(file))
    answer = gateway.create(model=model, messages=[{"role": "user", "content": "Where did Zebulon hide?"}])
    kept = b"".join(part.read_bytes() for part in tmp_path.iterdir()).lower()
    assert not any(word in kept for word in (b"zebulon", b"matterhorn", b"timbuktu"))
    shutil.copytree(tmp_path, tmp_path / "power-cut")  # what would be there if it had ended now
    with SigmaMem(path=tmp_path / "power-cut" / "memory.db") as mem:
        assert mem.decision(answer.id).id == answer.sigma_mem["decision"]


def test_the_answer_of_a_route_is_kept_with_its_stream_and_by_whoever_gave_it(start):
    gateway = start({"ann": fails(), "bob": says("It is 391.")}, keep_text=True)
    with gateway.create(model="sigma-mem", messages=ASK, stream=True) as stream:
        id, *_ = [chunk.id for chunk in stream]
    made = memory_of(gateway).decision(id)
    assert (made.served or made.peer, made.answers["bob"].strip()) == ("bob", "It is 391.")
    for model in ("sigma-mem", "sigma-mem/vote"):
        made = memory_of(gateway).decision(ask(gateway, model).id)
        assert (made.question, made.answers) == ("What is 17 * 23?", {"bob": "It is 391."})
    secret = start({"ann": says("391")})
    assert memory_of(secret).decision(ask(secret).id).answers == {}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("model", ["sigma-mem", "sigma-mem/vote", "sigma-mem/ask"])
def test_where_the_disk_fails_no_id_leaves(start, monkeypatch, model, stream):
    gateway = start({"ann": says("391")}, on_store_failure="refuse")

    async def full_disk(namespace):
        raise StoreError("the disk is full; make room")

    monkeypatch.setattr(gateway.context.memories, "flush", full_disk)
    with pytest.raises(openai.InternalServerError) as error:
        gateway.create(model=model, messages=ASK, stream=stream)
    assert error.value.status_code == 503
    assert "chatcmpl" not in error.value.response.text


def test_an_upstream_that_joins_starts_like_another(start, tmp_path):
    path = str(tmp_path / "memory.db")
    with start.fresh() as begin:
        gateway = begin({"ann": says("391")}, path=path)
        for _ in range(3):
            feedback = {"id": ask(gateway).id, "score": 1.0}
            gateway.client.post("/feedback", cast_to=object, body=feedback)
    joined = {"like": "ann", "worth": 2.0}
    mem = memory_of(start({"ann": says("391"), "low": says("381")}, peers={"low": joined}, path=path))
    assert mem.state.labels_of("low") == pytest.approx(2.0)
