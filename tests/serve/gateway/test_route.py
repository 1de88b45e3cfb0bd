"""``model="sigma-mem"``, a peer's own name, and what both cost: the official client against the gateway."""

import asyncio
import json
import shutil

import httpx2
import openai
import pytest

from serve.gateway.conftest import ASK, ask, memory_of
from serve.gateway.upstreams import breaks_off, cuts_the_stream, fails, says
from sigma_mem import SigmaMem
from sigma_mem.errors import StoreError, UnknownDecisionError
from sigma_mem.ledger.fold import Fold

MODELS = ("sigma-mem", "sigma-mem/vote", "sigma-mem/ask")


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


@pytest.mark.parametrize("model", MODELS)
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
@pytest.mark.parametrize("model", MODELS)
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


# ---- a peer's own name


def test_a_peers_own_name_passes_through_without_a_decision(start):
    gateway = start({"ann": says("391"), "team/bob": says("381")}, peers={"ann": {"output_price": 2.0}})
    create = gateway.client.chat.completions.with_raw_response.create
    raw = create(model="team/bob", messages=ASK, temperature=0.5)
    answer = raw.parse()
    assert (answer.model, answer.id, answer.choices[0].message.content) == ("team/bob", "upstream-1", "381")
    assert raw.headers["x-sigma-mem-peer"] == "team/bob"
    assert "x-sigma-mem-decision" not in raw.headers
    assert create(model="ann", messages=ASK).headers["x-sigma-mem-cost"] == "1e-05"
    chunks = list(gateway.create(model="ann", messages=ASK, stream=True))
    assert {c.model for c in chunks} == {"ann"}
    assert "".join(c.choices[0].delta.content or "" for c in chunks) == "391 "
    assert memory_of(gateway).events == 0


def test_what_a_named_peer_says_of_the_request_is_passed_on(start):
    gateway = start(
        {
            "refuses": fails("422 Unprocessable Entity", {"detail": "no such field"}),
            "fails": fails("503 Service Unavailable"),
            "cuts": cuts_the_stream,
        }
    )
    with pytest.raises(openai.UnprocessableEntityError, match="no such field"):
        gateway.create(model="refuses", messages=ASK)
    with pytest.raises(openai.InternalServerError) as error:
        gateway.create(model="fails", messages=ASK)
    assert error.value.status_code == 502
    with pytest.raises(openai.APIError, match="broke off"):
        list(gateway.create(model="cuts", messages=ASK, stream=True))


def test_a_named_peer_that_limits_its_rate_says_how_long_to_wait(start):
    gateway = start(
        {
            "asks": fails("429 Too Many Requests", headers="retry-after: 7\r\n"),
            "odd": fails("429 Too Many Requests", headers="retry-after: soon\r\n"),
        }
    )
    for call in (
        lambda model: gateway.create(model=model, messages=ASK),
        lambda model: gateway.create(model=model, messages=ASK, stream=True),
        lambda model: gateway.client.embeddings.create(model=model, input="x"),
    ):
        for model, wait in (("asks", "7"), ("odd", "5")):
            with pytest.raises(openai.RateLimitError, match=f"{model} limits its rate") as error:
                call(model)
            assert error.value.response.headers["retry-after"] == wait
    with pytest.raises(openai.InternalServerError) as error:  # nobody answered, whatever the reasons
        gateway.create(model="sigma-mem", messages=ASK)
    assert error.value.status_code == 502


def test_embeddings_pass_through_to_the_peer_they_name(start):
    gateway = start({"ann": says("391")}, peers={"ann": {"model": "embed-3", "input_price": 1.0}})
    raw = gateway.client.embeddings.with_raw_response.create(
        model="ann",
        input="cat",
        encoding_format="float",
        extra_body={"unknown": [1], "sigma_mem": {"namespace": "default"}},
    )
    answer = raw.parse()
    assert (answer.model, answer.data[0].embedding) == ("ann", [1.0])
    assert raw.headers["x-sigma-mem-cost"] == "3e-06"
    (path, _, body) = gateway.servers["ann"].requests[0]
    assert path == "/v1/embeddings"
    assert body == {"model": "embed-3", "input": "cat", "encoding_format": "float", "unknown": [1]}
    with pytest.raises(openai.NotFoundError):
        gateway.client.embeddings.create(model="sigma-mem", input="cat")


def test_a_service_without_upstreams_has_no_models(start):
    gateway = start({})
    assert list(gateway.client.models.list()) == []
    with pytest.raises(openai.NotFoundError):
        gateway.create(model="sigma-mem", messages=ASK)


# ---- costs


CHEAP, DEAR = {"output_price": 1.0}, {"output_price": 1000.0}
CALL = 5 / 1e6  # what a cheap call really costs: five tokens


@pytest.mark.parametrize("model", MODELS)
def test_what_a_call_cost_is_in_the_ledger(start, model):
    gateway = start({"ann": says("391")}, peers={"ann": CHEAP})
    answer = ask(gateway, model)
    assert answer.sigma_mem["cost"] == pytest.approx(CALL)
    assert memory_of(gateway).spent().total == pytest.approx(CALL)
    assert memory_of(gateway).decision(answer.id).served == "ann"


def test_a_stream_is_charged_at_its_end(start):
    gateway = start({"ann": says("391")}, peers={"ann": CHEAP})
    chunks = list(gateway.create(model="sigma-mem", messages=ASK, stream=True))
    assert memory_of(gateway).spent().total == pytest.approx(CALL)
    assert memory_of(gateway).decision(chunks[0].id).cost == pytest.approx(CALL)


def test_a_peer_that_failed_is_not_charged(start):
    gateway = start({"ann": breaks_off, "bob": says("391")}, peers={"ann": DEAR, "bob": CHEAP}, explore=False)
    assert ask(gateway).model == "bob"
    assert memory_of(gateway).spent().total == pytest.approx(CALL)


@pytest.mark.parametrize("model", MODELS)
def test_max_cost_holds(start, model):
    """Expected are 300 tokens of an answer: 0.3 of a dear peer, 0.0003 of a cheap one."""
    gateway = start({"dear": says("391"), "cheap": says("381")}, peers={"dear": DEAR, "cheap": CHEAP})
    for _ in range(3):
        assert ask(gateway, model, max_cost=0.01).model == "cheap"
    assert gateway.servers["dear"].requests == []
    with pytest.raises(openai.BadRequestError, match="max_cost"):
        ask(gateway, model, max_cost=0.0001)


def test_no_peer_beyond_max_cost_steps_in(start):
    gateway = start({"dear": says("391"), "cheap": fails()}, peers={"dear": DEAR, "cheap": CHEAP})
    for model in MODELS:
        with pytest.raises(openai.InternalServerError):
            ask(gateway, model, max_cost=0.01)
    assert gateway.servers["dear"].requests == []


def test_a_vote_asks_the_most_trusted_that_it_can_pay_for(start):
    names = ("ann", "bob", "cat")
    gateway = start({name: says("391") for name in names}, peers=dict.fromkeys(names, CHEAP))
    mem = memory_of(gateway)
    for _ in range(5):
        mem.feedback(mem.route(ASK), {"ann": False, "bob": True, "cat": True})
    answer = ask(gateway, "sigma-mem/vote", max_cost=0.0007)
    assert set(mem.decision(answer.id).canons) == {"bob", "cat"}
