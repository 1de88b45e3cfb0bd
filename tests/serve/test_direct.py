"""The shorter way to busy endpoints: the same answers as the framework's, and the same refusals."""

import json

import openai
import pytest

from serve.conftest import LOCAL, bearer, served
from serve.gateway.conftest import ASK, ask, starter
from serve.gateway.upstreams import says
from sigma_mem.serve.direct import DirectRoutes

AT = "/v1/memory/default"
JSON = {"content-type": "application/json"}


@pytest.fixture
def ways(monkeypatch):
    """Which requests took the shorter way, as a list that grows."""
    taken = []
    before = DirectRoutes.__call__

    async def watched(self, scope, receive, send):
        if scope["type"] != "http":
            await before(self, scope, receive, send)
            return
        framework = self._app

        async def longer(*args):
            taken.append("framework")
            await framework(*args)

        self._app = longer
        count = len(taken)
        try:
            await before(self, scope, receive, send)
        finally:
            self._app = framework
            if len(taken) == count:
                taken.append("direct")

    monkeypatch.setattr(DirectRoutes, "__call__", watched)
    return taken


@pytest.fixture
def start():
    with starter() as begin:
        yield begin


@pytest.fixture
def http(ways):
    with served() as http:
        assert http.put(AT, json={"peers": ["ann", "bob"], "encoder": "hashed"}).is_success
        ways.clear()
        yield http


def test_decisions_and_feedback_take_the_shorter_way(http, ways):
    made = http.post(f"{AT}/route", json={"question": "1 + 1?", "topic": "sums"})
    said = {"decision": made.json()["id"], "labels": {"ann": True}}
    taken = http.post(f"{AT}/feedback", json=said, headers={"idempotency-key": "once"})
    again = http.post(f"{AT}/feedback", json=said, headers={"idempotency-key": "once"})
    assert taken.json()["id"] == "once"
    assert taken.json() | {"time": None} == again.json() | {"time": None}
    for path in ("vote", "decide"):
        assert http.post(f"{AT}/{path}", json={"question": "?", "answers": {"ann": "2"}}).status_code == 200
    assert ways == ["direct"] * 5
    assert made.headers["content-security-policy"].startswith("default-src 'none'")
    counted = http.get("/metrics").text
    assert (
        'sigma_mem_requests_total{method="POST",route="/v1/memory/{namespace}/route",status="200"} 1.0'
        in counted
    )


@pytest.mark.parametrize(
    ("request_", "status", "way"),
    [
        ({"path": "/route", "content": b'{"question": 7}', "headers": JSON}, 422, "framework"),
        (
            {"path": "/route", "content": b'{"unknown": 7, "question": "?"}', "headers": JSON},
            422,
            "framework",
        ),
        ({"path": "/route", "content": b"{", "headers": JSON}, 422, "framework"),
        ({"path": "/route", "content": b'"\xff"', "headers": JSON}, 400, "framework"),
        ({"path": "/route", "content": b'{"question": "?"}', "headers": {}}, 422, "framework"),
        ({"path": "/route", "content": iter([b'{"question": "?"}']), "headers": JSON}, 200, "framework"),
        (
            {"path": "/route", "content": b'{"question": "?", "among": ["eve"]}', "headers": JSON},
            400,
            "direct",
        ),
        (
            {
                "path": "/feedback",
                "content": b'{"decision": "none", "labels": {"ann": true}}',
                "headers": JSON,
            },
            404,
            "direct",
        ),
        (
            {
                "path": "/feedback",
                "content": b'{"decision": "none", "labels": {"ann": true}}',
                "headers": JSON | {"idempotency-key": "x" * 257},
            },
            422,
            "framework",
        ),
        ({"path": "/nothing", "content": b"{}", "headers": JSON}, 404, "framework"),
    ],
)
def test_what_does_not_fit_is_answered_by_the_framework(http, ways, request_, status, way):
    path = request_.pop("path")
    response = http.post(f"{AT}{path}", **request_)
    assert response.status_code == status
    if status != 200:
        assert response.json()["error"]["message"]
    assert ways == [way]


def test_the_gateway_is_called_the_shorter_way(start, ways):
    gateway = start({"ann": says("391")})
    assert ask(gateway).model == "ann"
    chunks = list(gateway.client.chat.completions.create(model="sigma-mem", messages=ASK, stream=True))
    assert chunks[-1].choices[0].finish_reason == "stop"
    assert gateway.client.embeddings.create(model="ann", input="cat", encoding_format="float").data
    with pytest.raises(openai.NotFoundError):
        ask(gateway, model="nobody")
    assert ways == ["direct"] * 4
    gateway.client.models.list()
    assert ways[-1] == "framework"


def test_a_namespace_that_is_not_open_takes_the_longer_way_once(tmp_path, ways):
    path = str(tmp_path / "memory.db")
    with served(path=path) as http:
        assert http.put(AT, json={"peers": ["ann", "bob"], "encoder": "hashed"}).is_success
    ways.clear()
    with served(path=path) as http:
        for _ in range(2):
            assert http.post(f"{AT}/route", json={"question": "?"}).status_code == 200
        assert http.post("/v1/memory/other/route", json={"question": "?"}).status_code == 404
    assert ways[-3:] == ["framework", "direct", "framework"]


def test_the_gate_stands_before_the_shorter_way_too(locked_service, keys):
    asked = {"json": {"question": "?"}}
    status = {
        name: locked_service.post("/v1/memory/mine/route", headers=bearer(keys[name]), **asked).status_code
        for name in ("read", "write")
    }
    assert status == {"read": 403, "write": 200}
    assert locked_service.post("/v1/memory/mine/route", **asked).status_code == 401
    theirs = locked_service.post("/v1/memory/theirs/route", headers=bearer(keys["write"]), **asked)
    assert theirs.status_code == 404
    assert LOCAL not in json.dumps(theirs.json())


def test_the_log_says_which_namespace_a_request_to_the_gateway_meant(caplog):
    with served(log="json") as http, caplog.at_level("INFO", "sigma_mem.serve"):
        http.post("/v1/chat/completions", json={"model": "nobody", "messages": ASK})
        http.post("/v1/feedback", json={"id": "x", "score": 1, "namespace": "elsewhere"})
    lines = [record.fields for record in caplog.records if record.getMessage() == "request"]
    assert [(line["status"], line["namespace"]) for line in lines] == [(404, "default"), (404, "elsewhere")]


def test_a_body_that_is_not_said_to_be_json_is_refused_with_the_remedy(open_service):
    sent = open_service.post(
        f"{AT}/route", content=b'{"question": "x"}', headers={"content-type": "text/plain"}
    )
    assert sent.status_code == 422
    assert "expected the header Content-Type: application/json" in sent.json()["error"]["message"]
