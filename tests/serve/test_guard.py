"""What no route should see: other hosts and origins, too much of anything; and what every response has."""

import asyncio
import json
import time

import httpx2
import pytest

from serve.conftest import bearer, served
from serve.gateway.upstreams import wait_until
from sigma_mem.serve import ServerConfig
from sigma_mem.serve.config import RequestLimits
from sigma_mem.serve.guard import Guard
from sigma_mem.serve.keys import KeyRing, add_key
from sigma_mem.serve.telemetry import Metrics

METHODS = ["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example"}, 421),
        ({"host": "localhost.evil.example"}, 421),
        ({"host": "evil.example:8321"}, 421),
        ({"host": "[::1"}, 421),
        ({"host": ""}, 421),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://localhost:9999"}, 403),
    ],
)
def test_another_host_or_origin_is_refused_on_every_method(open_service, headers, status):
    """DNS rebinding: a page elsewhere that a browser here shows may not call (CVE-2025-66416)."""
    for method in METHODS:
        for path in ("/healthz", "/v1/memory/default", "/nowhere"):
            assert open_service.request(method, path, headers=headers).status_code == status, (method, path)


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "127.0.0.1:8321"},
        {"host": "[::1]:8321"},
        {"host": "LOCALHOST"},
        {"origin": "http://localhost"},
    ],
)
def test_its_own_names_are_served(open_service, headers):
    assert open_service.get("/healthz", headers=headers).status_code == 200


def test_other_names_and_origins_can_be_allowed():
    with served(allowed_hosts=("mem.example.org",), allowed_origins=("https://app.example.org",)) as http:
        assert http.get("/healthz", headers={"host": "mem.example.org"}).status_code == 200
        assert http.get("/healthz", headers={"origin": "https://app.example.org"}).status_code == 200


@pytest.fixture
def small():
    with served(
        limits=RequestLimits(body_bytes=500, header_bytes=800, batch=2, rate=5.0), peers=["ann"]
    ) as http:
        yield http


def test_large_bodies_are_refused_announced_or_not(small):
    body = json.dumps({"question": "x" * 600}).encode()
    path = "/v1/memory/default/route"
    assert small.post(path, content=body).status_code == 413
    sent = small.post(
        path, content=iter([body[:300], body[300:]]), headers={"content-type": "application/json"}
    )
    assert (sent.status_code, sent.json()["error"]["code"]) == (413, "body_too_large")


def test_large_headers_and_addresses_are_refused(small):
    assert small.get("/healthz", headers={"x-more": "x" * 900}).status_code == 431
    assert small.get("/healthz?" + "x" * 900).status_code == 431


def test_batches_and_rows_are_limited(small):
    item = {"decision": "d", "labels": {"ann": True}}
    sent = small.post("/v1/memory/default/feedback/batch", json={"items": [item] * 3})
    assert (sent.status_code, "at most 2 items" in sent.json()["error"]["message"]) == (422, True)
    assert small.get("/v1/memory/default/decisions?last=3").status_code == 422


def test_a_key_that_asks_too_often_is_told_to_wait(small):
    for _ in range(1_000):  # a busy machine asks slowly
        if (answer := small.get("/v1/memory")).status_code == 429:
            break
    assert answer.status_code == 429
    assert answer.headers["retry-after"] == "1"


def test_guessing_keys_is_slowed_down(locked_service, keys):
    rate, begun, wrong = RequestLimits().refused_rate, time.monotonic(), []
    while wrong.count(429) < 15 and len(wrong) < 1_000:  # a busy machine guesses slowly
        guess = bearer(f"sm-{len(wrong)}")
        wrong.append(locked_service.get("/v1/memory", headers=guess).status_code)
    assert wrong[0] == 401
    assert wrong.count(429) == 15
    assert wrong.count(401) <= 2 * rate + rate * (time.monotonic() - begun) + 1
    assert locked_service.get("/v1/memory", headers=bearer(keys["read"])).status_code == 200


@pytest.mark.parametrize("broken", [lambda file: file.write_text("{"), lambda file: file.mkdir()])
def test_where_the_keys_cannot_be_read_nobody_may_and_the_log_says_why(
    locked_service, keys, key_file, caplog, broken
):
    kept = key_file.read_text()
    key_file.unlink()
    broken(key_file)
    headers = bearer(keys["root"])
    wait_until(lambda: locked_service.get("/v1/memory", headers=headers).status_code != 200)
    with caplog.at_level("INFO", "sigma_mem.serve"):
        refused = locked_service.get("/v1/memory", headers=headers)
    assert refused.status_code == 503
    assert str(key_file) not in refused.text
    assert str(key_file) in str([getattr(record, "fields", {}) for record in caplog.records])
    key_file.rmdir() if key_file.is_dir() else key_file.unlink()
    key_file.write_text(kept)
    assert locked_service.get("/v1/memory", headers=headers).status_code == 200


def test_a_header_twice_is_refused(locked_service, keys):
    headers = [("authorization", "Bearer x"), ("authorization", f"Bearer {keys['root']}")]
    assert locked_service.get("/v1/memory", headers=headers).status_code == 400


def test_every_response_forbids_what_a_page_could_do(open_service):
    for path in ("/healthz", "/v1/memory/default", "/nowhere"):
        headers = open_service.get(path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["content-security-policy"].startswith("default-src 'none'")
        assert headers["cache-control"] == "no-store"
    named = open_service.get("/healthz", headers={"x-request-id": "trace-1"})
    assert named.headers["x-request-id"] == "trace-1"
    odd = open_service.get("/healthz", headers={"x-request-id": "a b<script>"})
    assert "<" not in odd.headers["x-request-id"]


def test_what_models_write_comes_back_as_json_only(open_service):
    """An answer with markup in it is data: no response of the API is a page."""
    nasty = "<img src=x onerror=alert(1)>"
    sent = open_service.post(
        "/v1/memory/default/vote", json={"question": nasty, "answers": {"ann": nasty, "bob": nasty}}
    )
    assert sent.headers["content-type"] == "application/json"
    assert sent.json()["answer"] == nasty
    refused = open_service.post("/v1/memory/default/route", json={"question": "x", "read": nasty})
    assert refused.headers["content-type"] == "application/json"


def test_a_bug_says_nothing_of_itself(open_service, monkeypatch):
    from sigma_mem import SigmaMem

    def broken(self):
        raise RuntimeError("the password is swordfish")

    monkeypatch.setattr(SigmaMem, "drift", broken)
    sent = open_service.get("/v1/memory/default/drift")
    assert sent.status_code == 500
    assert "swordfish" not in sent.text
    assert sent.json()["error"]["code"] == "internal"


def test_health_has_its_own_way(locked_service):
    while locked_service.get("/v1/memory").status_code != 429:
        pass
    assert locked_service.get("/healthz").status_code == 200
    assert locked_service.get("/readyz").status_code == 200


@pytest.fixture
def crowd(tmp_path):
    """A service with four places, whose requests wait until they may end."""
    file = tmp_path / "keys.json"
    keys = {name: add_key(file, name, {"*": "read"}, 0.0) for name in ("mallory", "bob")}
    config = ServerConfig(keys=str(file), log="off", limits=RequestLimits(concurrency=4))

    async def play(ask):
        ends = asyncio.Event()

        async def app(scope, receive, send):
            await ends.wait()
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body"})

        guard = Guard(app, config, KeyRing(file), Metrics())
        async with httpx2.AsyncClient(
            transport=httpx2.ASGITransport(guard), base_url="http://localhost"
        ) as http:

            async def call(who, path="/v1/memory"):
                return (await http.get(path, headers=bearer(keys[who]))).status_code

            await ask(lambda *of: asyncio.create_task(call(*of)), ends)

    return lambda ask: asyncio.run(asyncio.wait_for(play(ask), 30))


def test_a_key_that_takes_all_places_leaves_others_theirs_and_health_its_own(crowd):
    async def ask(call, ends):
        many = [call("mallory") for _ in range(10)]
        await asyncio.sleep(0.05)
        others = [call("bob") for _ in range(3)] + [call("mallory", "/healthz")]
        await asyncio.sleep(0.05)
        ends.set()
        assert sorted([await each for each in many]) == [200] * 4 + [503] * 6
        assert [await each for each in others] == [200, 200, 503, 200]
        assert await call("mallory") == 200

    crowd(ask)


def test_a_path_that_does_not_exist_is_logged(caplog):
    with served(log="json", access_log=False) as http, caplog.at_level("INFO", "sigma_mem.serve"):
        assert http.post("/v1/completions", json={}).status_code == 404
        assert http.get("/v1/models").is_success
    logged = [record.fields for record in caplog.records if record.message == "request"]
    assert [(each["path"], each["status"]) for each in logged] == [("/v1/completions", 404)]


def test_a_wrong_key_is_told_so(locked_service, keys):
    for headers in (bearer("sm-misspelt"), {"x-api-key": "sm-misspelt"}):
        refused = locked_service.get("/v1/memory", headers=headers)
        assert (refused.status_code, refused.json()["error"]["code"]) == (401, "wrong_key")
        assert "misspelt, or was removed" in refused.json()["error"]["message"]
        assert "sm-misspelt" not in refused.text
        assert locked_service.get("/healthz", headers=headers).status_code == 200
        assert locked_service.get("/docs", headers=headers).status_code == 200
    assert locked_service.get("/v1/memory").json()["error"]["code"] == "no_key"


def test_the_root_leads_to_the_dashboard_and_docs_to_the_api(locked_service):
    found = locked_service.get("/", follow_redirects=False)
    assert (found.status_code, found.headers["location"]) == (307, "/dashboard/")
    page = locked_service.get("/docs")
    assert page.headers["content-type"].startswith("text/html")
    assert "<code>/v1/memory/{namespace}/route</code>" in page.text
    assert "script" not in page.text


def test_limit_is_last(locked_service, keys):
    for _ in range(3):
        locked_service.post("/v1/memory/mine/route", json={"question": "2?"}, headers=bearer(keys["write"]))
    for name in ("last", "limit"):
        page = locked_service.get(f"/v1/memory/mine/decisions?{name}=2", headers=bearer(keys["read"]))
        assert len(page.json()["decisions"]) == 2
