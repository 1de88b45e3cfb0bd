"""Tools and images pass through, and a conversation in a tool loop stays on its peer."""

import json
from collections import Counter

import httpx2
import openai
import pytest

from serve.gateway.conftest import ASK, ask, memory_of
from serve.gateway.upstreams import fails, says, upstream

TOOLS = [{"type": "function", "function": {"name": "multiply", "parameters": {"type": "object"}}}]
CALL = {"id": "call_9", "type": "function", "function": {"name": "multiply", "arguments": '{"a": 17}'}}


def calling(name):
    """A model that calls a tool first, and answers with its name once it sees a result."""
    asks, answers = says(None, tool_calls=[CALL]), says(name)

    async def behave(server, body, writer):
        done = any(message["role"] == "tool" for message in body["messages"])
        await (answers if done else asks)(server, body, writer)

    return behave


def four():
    return {name: calling(name) for name in ("ann", "bob", "cat", "dan")}


def with_result(message):
    result = {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "391"}
    return [*ASK, message.model_dump(exclude_none=True), result]


def test_a_tool_loop_stays_on_its_peer_and_is_one_event(start):
    gateway = start(four())
    mem = memory_of(gateway)
    for _ in range(6):
        first = gateway.create(model="sigma-mem", messages=ASK, tools=TOOLS)
        message = first.choices[0].message
        assert json.loads(message.tool_calls[0].function.arguments) == {"a": 17}
        second = gateway.create(model="sigma-mem", messages=with_result(message), tools=TOOLS)
        assert second.model == first.model == second.choices[0].message.content
        assert mem.decision(second.id).event == mem.decision(first.id).event
        last = gateway.servers[first.model].bodies[-1]
        assert last["tools"] == TOOLS
        assert last["messages"][1]["tool_calls"][0]["id"] == "call_9"  # the upstream sees its own id
        assert last["messages"][2]["tool_call_id"] == "call_9"


def test_a_streamed_call_stays_too_and_so_does_a_vote(start):
    gateway = start(four())
    chunks = list(gateway.create(model="sigma-mem", messages=ASK, tools=TOOLS, stream=True))
    (id,) = {call.id for c in chunks for call in c.choices[0].delta.tool_calls or ()}
    result = {"role": "tool", "tool_call_id": id, "content": "391"}
    asked = [*ASK, {"role": "assistant", "tool_calls": [CALL | {"id": id}]}, result]
    second = gateway.create(model="sigma-mem", messages=asked)
    assert second.model == chunks[0].model
    first = gateway.create(model="sigma-mem/vote", messages=ASK, tools=TOOLS)
    before = Counter({name: len(server.requests) for name, server in gateway.servers.items()})
    second = gateway.create(model="sigma-mem/vote", messages=with_result(first.choices[0].message))
    assert second.model == first.model
    after = Counter({name: len(server.requests) for name, server in gateway.servers.items()})
    assert after - before == {first.model: 1}


def test_the_loop_outlives_a_restart(start, tmp_path):
    path = str(tmp_path / "memory.db")
    with start.fresh() as begin:
        message = ask(begin(four(), path=path)).choices[0].message
    with start.fresh() as begin:
        gateway = begin(four(), path=path)
        answer = gateway.create(model="sigma-mem", messages=with_result(message))
        earlier = message.tool_calls[0].id.partition("--")[2]
        assert answer.model == memory_of(gateway).decision(earlier).peer


def test_a_loop_that_began_elsewhere_is_routed(start):
    gateway = start(four())
    for id in ("call_7", "call_7--chatcmpl-00", "7--8"):
        asked = [*ASK, {"role": "assistant", "tool_calls": [CALL | {"id": id}]}]
        asked.append({"role": "tool", "tool_call_id": id, "content": "391"})
        answer = gateway.create(model="sigma-mem", messages=asked)
        assert answer.choices[0].message.content == answer.model


def test_images_pass_through_and_nothing_that_a_request_names_is_fetched(start):
    """Neither an image nor another server, which some gateways take from the body."""
    with upstream(says("secret")) as inside:
        gateway = start({"ann": says("a cat")})
        content = [
            {"type": "text", "text": "What is this?"},
            {"type": "image_url", "image_url": {"url": f"{inside.url}/secret.png"}},
        ]
        body = {
            "messages": [{"role": "user", "content": content}],
            "api_base": inside.url,
            "base_url": inside.url,
            "api_key": "mine",
        }
        answer = httpx2.post(
            f"{gateway.url}/v1/chat/completions",
            json={"model": "sigma-mem", **body},
            headers={"x-upstream-url": inside.url, "authorization": "Bearer the-clients-own"},
        ).json()
        assert answer["choices"][0]["message"]["content"] == "a cat"
        assert inside.requests == []
        (_, headers, sent) = gateway.servers["ann"].requests[0]
        assert sent == {"model": "ann", **body}  # what it does not know, it passes on
        assert "authorization" not in headers
        assert "x-upstream-url" not in headers


def test_the_key_of_an_upstream_comes_from_the_environment_and_stays_here(start, tmp_path, monkeypatch):
    from sigma_mem.serve.keys import add_key

    monkeypatch.setenv("ANN_KEY", "sk-of-ann")
    key = add_key(tmp_path / "keys.json", "team", {"default": "write"}, 0.0)
    gateway = start(
        {"ann": says("1")}, peers={"ann": {"key_env": "ANN_KEY"}}, keys=str(tmp_path / "keys.json")
    )
    with openai.OpenAI(base_url=f"{gateway.url}/v1", api_key=key) as client:
        answer = client.chat.completions.with_raw_response.create(model="sigma-mem", messages=ASK)
    assert gateway.servers["ann"].requests[0][1]["authorization"] == "Bearer sk-of-ann"
    assert "sk-of-ann" not in answer.text + str(dict(answer.headers))


def test_an_upstream_cannot_send_the_gateway_elsewhere(start):
    with upstream(says("secret")) as inside:
        moved = fails("307 Temporary Redirect", headers=f"location: {inside.url}/chat/completions\r\n")
        gateway = start({"ann": moved})
        with pytest.raises(openai.InternalServerError):
            ask(gateway)
        assert inside.requests == []
