"""Plain routes: the same answers as the framework's, the same refusals, and values as JSON."""

import json
import math

import openai
import pytest
from fastapi.routing import APIRoute

from serve.conftest import served
from serve.gateway.conftest import ASK, ask, starter
from serve.gateway.upstreams import says
from sigma_mem.serve.calls import body_response

AT = "/v1/memory/default"
JSON, TEXT = ({"content-type": kind} for kind in ("application/json", "text/plain"))


@pytest.fixture
def framework(monkeypatch):
    """The requests that FastAPI validated itself, as a list that grows."""
    taken = []
    build = APIRoute.get_route_handler

    def watched(self):
        handler = build(self)

        async def longer(request):
            taken.append(request.url.path)
            return await handler(request)

        return longer

    monkeypatch.setattr(APIRoute, "get_route_handler", watched)
    return taken


@pytest.fixture
def start():
    with starter() as begin:
        yield begin


@pytest.fixture
def http(framework):
    with served(peers=["ann", "bob"]) as http:
        framework.clear()
        yield http


def test_decisions_and_feedback_are_called_plainly(http, framework):
    made = http.post(f"{AT}/route", json={"question": "1 + 1?", "topic": "sums"})
    said = {"decision": made.json()["id"], "labels": {"ann": True}}
    taken = http.post(f"{AT}/feedback", json=said, headers={"idempotency-key": "once"})
    again = http.post(f"{AT}/feedback", json=said, headers={"idempotency-key": "once"})
    assert taken.json()["id"] == "once"
    assert taken.json() | {"time": None} == again.json() | {"time": None}
    for path in ("vote", "decide"):
        assert http.post(f"{AT}/{path}", json={"question": "?", "answers": {"ann": "2"}}).status_code == 200
    assert framework == []
    assert made.headers["content-security-policy"].startswith("default-src 'none'")
    counted = http.get("/metrics").text
    assert (
        'sigma_mem_requests_total{method="POST",route="/v1/memory/{namespace}/route",status="200"} 1.0'
        in counted
    )


LABELS = b'{"decision": "none", "labels": {"ann": true}}'


@pytest.mark.parametrize(
    ("path", "content", "headers", "status", "longer", "said"),
    [
        ("/route", b'{"question": 7}', JSON, 422, True, "question"),
        ("/route", b'{"unknown": 7, "question": "?"}', JSON, 422, True, "unknown"),
        ("/route", b'{"question": "x"', JSON, 422, True, "the body is not valid JSON at character 16: "),
        ("/route", b'"\xff"', JSON, 400, True, ""),
        ("/route", b'{"question": "?"}', {}, 422, True, "Content-Type: application/json"),
        ("/route", b'{"question": "?"}', TEXT, 422, True, "expected the header Content-Type"),
        ("/route", iter([b'{"question": ', b'"?"}']), JSON, 200, False, None),
        ("/route", b'{"question": "?", "among": ["eve"]}', JSON, 400, False, "eve"),
        ("/feedback", LABELS, JSON, 404, False, "none"),
        ("/feedback", LABELS, JSON | {"idempotency-key": "x" * 257}, 400, False, "257 characters"),
        ("/nothing", b"{}", JSON, 404, False, "no such path"),
    ],
)
def test_what_does_not_fit_is_answered_by_the_framework(
    http, framework, path, content, headers, status, longer, said
):
    response = http.post(f"{AT}{path}", content=content, headers=headers)
    assert response.status_code == status
    assert said is None or said in response.json()["error"]["message"]
    assert framework == [f"{AT}{path}"] * longer


def test_a_namespace_that_no_memory_can_have_is_refused(http, framework):
    assert http.post("/v1/memory/-a/route", json={"question": "?"}).status_code == 422
    assert framework == ["/v1/memory/-a/route"]
    assert http.post("/v1/memory/other/route", json={"question": "?"}).status_code == 404


def test_the_gateway_reads_its_requests_itself(start, framework):
    gateway = start({"ann": says("391")})
    assert ask(gateway).model == "ann"
    chunks = list(gateway.create(model="sigma-mem", messages=ASK, stream=True))
    assert chunks[-1].choices[0].finish_reason == "stop"
    assert gateway.client.embeddings.create(model="ann", input="cat", encoding_format="float").data
    with pytest.raises(openai.NotFoundError):
        ask(gateway, model="nobody")
    assert framework == []


def test_the_log_says_which_namespace_a_request_to_the_gateway_meant(caplog):
    with served(log="json") as http, caplog.at_level("INFO", "sigma_mem.serve"):
        http.post("/v1/chat/completions", json={"model": "nobody", "messages": ASK})
        http.post("/v1/feedback", json={"id": "x", "score": 1, "namespace": "elsewhere"})
    lines = [record.fields for record in caplog.records if record.getMessage() == "request"]
    assert [(line["status"], line["namespace"]) for line in lines] == [(404, "default"), (404, "elsewhere")]


@pytest.mark.parametrize("text", ["naïve", "half of a pair: \ud83d"])
def test_what_json_does_not_have_becomes_null_beside_any_text(text):
    body = {"text": text, "values": [0.1, math.nan, math.inf], "none": {"x": -math.inf}}
    response = body_response(body)
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    assert json.loads(response.body) == {"text": text, "values": [0.1, None, None], "none": {"x": None}}
