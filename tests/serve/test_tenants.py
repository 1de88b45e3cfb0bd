"""What one key or tenant does leaves the others alone."""

import asyncio
import socket
import time

import httpx2
import pytest
from starlette.exceptions import HTTPException

from serve.conftest import bearer, served
from serve.gateway.conftest import serving
from sigma_mem.serve import ServerConfig, create_app, routes
from sigma_mem.serve.calls import is_short
from sigma_mem.serve.config import RequestLimits
from sigma_mem.serve.guard import LimitedBody, LoopTime
from sigma_mem.serve.keys import add_key


@pytest.fixture
def tenants(tmp_path):
    """A service with two namespaces, and two keys that write in the first and one in the second."""
    file = tmp_path / "keys.json"
    grants = {
        "root": {"*": "admin"},
        "alice": {"a": "write"},
        "mallory": {"a": "write"},
        "bob": {"b": "write"},
    }
    keys = {name: add_key(file, name, of, 0.0) for name, of in grants.items()}
    with served(keys=str(file)) as http:

        def call(who, path, body, **headers):
            return http.post(f"/v1/memory/{path}", json=body, headers=bearer(keys[who]) | headers)

        for name in "ab":
            body = {"peers": ["p", "q"], "encoder": "hashed"}
            assert http.put(f"/v1/memory/{name}", json=body, headers=bearer(keys["root"])).is_success
        yield call


def test_a_key_cannot_take_or_change_the_ids_of_another(tenants):
    made = [tenants("alice", "a/route", {"question": f"q{n}"}).json()["id"] for n in range(4)]

    def said(who, decision, labels, id, **more):
        body = {"decision": decision, "labels": labels, **more}
        return tenants(who, "a/feedback", body, **{"idempotency-key": id})

    assert said("mallory", made[0], {"q": True}, "run-7").is_success
    assert said("alice", made[1], {"p": True}, "run-7").is_success
    assert said("mallory", made[2], {"q": True}, "run-7", amend=True).is_success
    assert said("alice", made[1], {"p": True}, "run-7").is_success  # an honest retry
    batch = {"items": [{"decision": made[3], "labels": {"q": True}, "id": "alice:run-8"}]}
    assert "feedback" in tenants("mallory", "a/feedback/batch", batch).json()["results"][0]
    assert said("alice", made[3], {"p": True}, "run-8").is_success


def test_answers_of_peers_that_are_not_there_are_refused_before_they_are_compared(tenants, monkeypatch):
    monkeypatch.setattr("sigma_mem.session.sigma.prepare_answers", None)  # what takes long
    answers = {f"k{n}": "abc"[n % 3] for n in range(4_000)}
    refused = tenants("alice", "a/decide", {"question": "?", "answers": answers})
    assert refused.status_code == 400
    assert "is not in the pool" in refused.json()["error"]["message"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("decide", {"question": "x", "answers": {f"{n:x}": None for n in range(9000)}}),
        ("route", {"phi": [0.125] * 20_000}),
        ("feedback", {"decision": "d", "labels": {f"{n:x}": True for n in range(9000)}}),
    ],
)
def test_a_long_list_is_refused_and_parsed_once(tenants, monkeypatch, path, body):
    monkeypatch.setattr("starlette.requests.Request.json", None)  # by which FastAPI would parse it again
    refused = tenants("alice", f"a/{path}", body)
    assert (refused.status_code, "at most 4096 items" in refused.text) == (422, True), refused.text


def test_panels_of_one_tenant_do_not_push_out_those_of_another(tenants, monkeypatch):
    monkeypatch.setattr(routes, "_MOST", 3)
    first = tenants("alice", "a/ask", {"question": "mine"}).json()["panel"]
    theirs = tenants("bob", "b/ask", {"question": "mine"}).json()["panel"]
    for n in range(5):
        assert tenants("mallory", "a/ask", {"question": f"another {n}"}).is_success
    answer = {"peer": "p", "answer": "1"}
    assert tenants("bob", "b/ask/add", {"panel": theirs, **answer}).is_success
    assert tenants("alice", "a/ask/add", {"panel": first, **answer}).status_code == 404


def test_long_questions_of_open_panels_are_bounded(tenants, monkeypatch):
    monkeypatch.setattr(routes, "_MOST_CHARACTERS", 10_000)
    opened = [tenants("alice", "a/ask", {"question": 6_000 * letter}).json()["panel"] for letter in "xyz"]
    answer = {"peer": "p", "answer": "1"}
    statuses = [tenants("alice", "a/ask/add", {"panel": each, **answer}).status_code for each in opened]
    assert statuses == [404, 404, 200]


def test_a_key_whose_bodies_take_long_to_parse_waits_and_others_do_not(tenants):
    body = {"answers": {f"{n:x}": None for n in range(290_000)}}
    assert tenants("mallory", "a/decide", body).status_code == 422
    assert 429 in (tenants("mallory", "a/decide", body).status_code for _ in range(20))
    assert tenants("mallory", "a/route", {"question": "short"}).is_success
    assert tenants("alice", "a/decide", body).status_code == 422
    long = {"question": 70_000 * "x"}  # one value: it is read in a moment
    assert all(tenants("bob", "b/route", long).is_success for _ in range(40))


@pytest.mark.parametrize(
    ("ms", "alone", "calls"),
    [(1.5, False, None), (5.0, False, 40), (5.0, True, None), (20.0, False, 1), (20.0, True, None)],
)
def test_a_key_may_hold_up_others_for_a_tenth_of_the_time_and_less_in_long_steps(ms, alone, calls):
    now = [0.0]
    spent = LoopTime(clock=lambda: now[0])

    def goes_on(n):
        if not alone:
            spent.took("bob", 1e-4)
        spent.took("mallory", ms / 1e3)
        return not spent.is_spent("mallory")

    assert next((n for n in range(1, 500) if not goes_on(n)), None) == calls
    assert not spent.is_spent("bob")
    now[0] = 5.0
    assert not spent.is_spent("mallory")


def test_a_key_may_send_so_many_megabytes_a_second_while_others_call():
    spent = LoopTime(clock=lambda: 0.0)

    async def megabyte():
        return {"type": "http.request", "body": 1_000_000 * b"x"}

    async def send(times):
        for _ in range(times):
            spent.took("bob", 1e-4)
            await LimitedBody(megabyte, 4_000_000, spent, "mallory")()

    asyncio.run(send(40))
    with pytest.raises(HTTPException, match="wait, or send less"):
        asyncio.run(send(1))
    assert not spent.is_spent("bob")


def test_who_is_above_its_rate_waits_for_the_refusal():
    async def flood():
        app = create_app(ServerConfig(log="off", limits=RequestLimits(rate=1.0)))
        async with httpx2.AsyncClient(
            transport=httpx2.ASGITransport(app), base_url="http://localhost"
        ) as http:
            while (await http.get("/v1/memory")).status_code == 200:
                pass
            begun = time.monotonic()
            assert (await http.get("/v1/memory")).status_code == 429
            await app.state.context.memories.close()
            return time.monotonic() - begun

    assert asyncio.run(flood()) >= 0.09


@pytest.mark.parametrize("question", [30_000 * "x", [{"role": "user", "content": 30_000 * "x"}]])
def test_long_questions_are_not_encoded_on_the_event_loop(question):
    assert not is_short({"question": question})
    assert is_short({"question": question[:20]} if isinstance(question, str) else {"question": []})


def test_others_are_served_while_a_batch_is_taken():
    async def race():
        app = create_app(ServerConfig(log="off"))
        async with httpx2.AsyncClient(
            transport=httpx2.ASGITransport(app), base_url="http://localhost"
        ) as http:
            await http.put("/v1/memory/a", json={"peers": ["p"], "encoder": "hashed"})
            made = (await http.post("/v1/memory/a/route", json={"question": "q"})).json()["id"]
            items = [{"decision": made, "labels": {"p": True}} for _ in range(300)]
            batch = asyncio.create_task(http.post("/v1/memory/a/feedback/batch", json={"items": items}))
            served = 0
            while not batch.done():
                assert (await http.post("/v1/memory/a/route", json={"question": "q"})).is_success
                served += 1
                await asyncio.sleep(0)
            assert batch.result().is_success
            await app.state.context.memories.close()
            return served

    assert asyncio.run(race()) > 10


@pytest.mark.parametrize("path", ["/v1/memory/a/decide", "/v1/chat/completions", "/v1/logs", "/mcp"])
def test_nothing_of_a_body_without_a_key_is_read(tmp_path, path):
    add_key(tmp_path / "keys.json", "root", {"*": "admin"}, 0.0)

    async def body():
        yield pytest.fail("the body is read before the key is known")

    async def send():
        app = create_app(ServerConfig(log="off", keys=str(tmp_path / "keys.json")))
        async with httpx2.AsyncClient(
            transport=httpx2.ASGITransport(app), base_url="http://localhost"
        ) as http:
            return await http.post(path, content=body(), headers={"content-type": "application/json"})

    assert asyncio.run(send()).status_code == 401


def test_a_refused_body_is_read_no_further_than_a_body_may_go(tmp_path):
    add_key(tmp_path / "keys.json", "root", {"*": "admin"}, 0.0)
    limits = RequestLimits(body_bytes=300_000)
    app = create_app(ServerConfig(log="off", keys=str(tmp_path / "keys.json"), limits=limits))
    head = b"POST /v1/memory/a/decide HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunk = b"10000\r\n" + bytes(65_536) + b"\r\n"
    with serving(app) as url, socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2]))) as client:
        client.settimeout(20.0)
        client.sendall(head + chunk)
        assert client.recv(4096).startswith(b"HTTP/1.1 401")
        with pytest.raises(ConnectionError):
            client.sendall(1_000 * chunk)  # 64 MB
