"""Where a request's topics come from, and what of it reaches the upstream."""

import httpx2 as httpx
import pytest

from serve.gateway.conftest import ASK, memory_of
from serve.gateway.upstreams import says
from sigma_mem.serve.config import TopicRule

RULES = (
    TopicRule("law", system="CONTRACT law"),
    TopicRule("code", tool="git_*"),
    TopicRule("bots", key="def*"),
    TopicRule("claude", path="/v1/messages"),
    TopicRule("old", mode="apply"),
)


@pytest.fixture(scope="module")
def gateway():
    from serve.gateway.conftest import starter

    with starter() as begin:
        upstream = {"headers": {"x-team": "law"}}
        yield begin({"ann": says("391")}, topics=RULES, peers={"ann": upstream})


def topics(gateway, path="chat/completions", headers=None, **body):
    usual = {} if path == "responses" else {"messages": ASK, "max_tokens": 9}
    sent = {"model": "sigma-mem", **usual, **body}
    response = httpx.post(f"{gateway.url}/v1/{path}", json=sent, headers=headers or {})
    assert response.is_success, response.text
    return set(memory_of(gateway).decision(response.json()["id"]).topics)


SYSTEM = [{"role": "system", "content": "You know contract law."}, *ASK]
TOOL = {"type": "function", "function": {"name": "git_log", "parameters": {}}}


def test_topics_come_from_the_body_a_header_the_model_or_the_rules(gateway):
    assert topics(gateway) == {"bots"}
    assert topics(gateway, model="sigma-mem:sums") == {"sums"}
    assert topics(gateway, model="sigma-mem/vote:sums, tests") == {"sums", "tests"}
    assert topics(gateway, model="sigma-mem/ask", sigma_mem={"topic": ["b", "a"]}) == {"a", "b"}
    header = {"x-sigma-mem-topic": "poems"}
    assert topics(gateway, model="sigma-mem:sums", headers=header) == {"poems"}
    assert topics(gateway, headers=header, sigma_mem={"topic": "own"}) == {"own"}


def test_rules_look_at_key_path_system_prompt_and_tools(gateway):
    assert topics(gateway, messages=SYSTEM) == {"bots", "law"}
    assert topics(gateway, tools=[TOOL]) == {"bots", "code"}
    system = [{"type": "text", "text": "contract law"}]
    assert topics(gateway, "messages", system=system) == {"bots", "law", "claude"}
    assert topics(gateway, "messages", tools=[{"name": "git_x", "input_schema": {}}]) == {
        "bots",
        "code",
        "claude",
    }
    assert topics(gateway, "responses", input="2 + 2?", instructions="contract law") == {"bots", "law"}


def test_models_with_a_topic_are_listed_and_others_refused(gateway):
    names = [model["id"] for model in httpx.get(f"{gateway.url}/v1/models").json()["data"]]
    assert names[:5] == ["sigma-mem", "sigma-mem/vote", "sigma-mem/ask", "sigma-mem:law", "sigma-mem:code"]
    assert httpx.get(f"{gateway.url}/v1/models/sigma-mem:any").json()["id"] == "sigma-mem:any"
    sent = {"model": "ann:law", "messages": ASK}
    assert httpx.post(f"{gateway.url}/v1/chat/completions", json=sent).status_code == 404


def test_upstreams_get_the_trace_the_requests_id_and_their_own_headers(gateway):
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    sent = {"traceparent": trace, "x-request-id": "run-7", "x-private": "no", "cookie": "no"}
    topics(gateway, headers=sent)
    headers = gateway.servers["ann"].requests[-1][1]
    assert (headers["traceparent"], headers["x-request-id"], headers["x-team"]) == (trace, "run-7", "law")
    assert not {"x-private", "cookie"} & set(headers)
    body = {"model": "ann", "input": "x"}
    response = httpx.post(f"{gateway.url}/v1/embeddings", json=body)
    headers = gateway.servers["ann"].requests[-1][1]
    assert headers["x-request-id"] == response.headers["x-request-id"]
