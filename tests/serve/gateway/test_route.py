"""``model="sigma-mem"``: the official client against the gateway, over upstreams on loopback."""

import asyncio

import openai
import pytest
from serve.gateway.upstreams import says

ASK = [{"role": "user", "content": "What is 17 * 23?"}]


def test_a_route_answers_with_the_peer_its_decision_and_its_usage(start):
    gateway = start({"ann": says("391")}, peers={"ann": {"model": "ann-large", "output_price": 2.0}})
    raw = gateway.client.chat.completions.with_raw_response.create(model="sigma-mem", messages=ASK, seed=7)
    answer = raw.parse()
    assert answer.choices[0].message.content == "391"
    assert answer.model == "ann"
    assert answer.usage.total_tokens == 15
    assert answer.service_tier == "default"  # a field that the gateway does not know
    headers = {key: raw.headers[f"x-sigma-mem-{key}"] for key in ("decision", "peer", "attempts", "cost")}
    mem = gateway.context.memories._opened["default"].mem
    decision = mem.decision(answer.id)
    assert headers == {"decision": decision.id, "peer": "ann", "attempts": "1", "cost": "1e-05"}
    assert float(raw.headers["x-sigma-mem-confidence"]) == pytest.approx(decision.confidence, abs=1e-5)
    assert answer.sigma_mem["decision"] == decision.id
    assert decision.ref == answer.id
    (body,) = gateway.servers["ann"].bodies
    assert body == {"model": "ann-large", "messages": ASK, "seed": 7}


def test_the_async_client_too(start):
    gateway = start({"ann": says("391"), "bob": says("381")})

    async def ask():
        async with openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key="none") as client:
            return await asyncio.gather(
                *(client.chat.completions.create(model="sigma-mem", messages=ASK) for _ in range(8))
            )

    answers = asyncio.run(ask())
    assert {a.choices[0].message.content for a in answers} <= {"391", "381"}
    assert len({a.id for a in answers}) == 8


def test_a_stream_passes_chunks_under_our_id_and_the_peers_name(start):
    gateway = start({"ann": says("It is 391")})
    with gateway.client.chat.completions.create(model="sigma-mem", messages=ASK, stream=True) as stream:
        chunks = list(stream)
    assert "".join(c.choices[0].delta.content or "" for c in chunks) == "It is 391 "
    assert {c.model for c in chunks} == {"ann"}
    (id,) = {c.id for c in chunks}
    mem = gateway.context.memories._opened["default"].mem
    assert mem.decision(id).peer == "ann"
    assert chunks[0].sigma_mem["decision"] == mem.decision(id).id
    assert chunks[-1].choices[0].finish_reason == "stop"
