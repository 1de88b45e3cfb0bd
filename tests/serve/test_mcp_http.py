"""The official client against ``/mcp`` of the service, on a socket: keys, roles, namespaces."""

import asyncio
import json
import logging
from contextlib import asynccontextmanager

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from serve.conftest import bearer, served
from serve.gateway.conftest import serving
from serve.test_mcp_stdio import QUESTION, TOOLS, called, refused
from sigma_mem.serve import app as service
from sigma_mem.serve.config import RequestLimits, ServerConfig


@asynccontextmanager
async def agent(address, key=None, mode="auto"):
    headers = {} if key is None else bearer(key)
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(streamable_http_client(f"{address}/mcp", http_client=http), mode=mode) as client,
    ):
        yield client


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_each_key_may_what_its_role_says(keys, key_file, tmp_path, mode):
    audit = tmp_path / "audit.jsonl"
    app = service.create_app(ServerConfig(log="off", keys=str(key_file), namespace="mine", audit=str(audit)))

    async def main():
        with serving(app) as address:
            for name in ("mine", "theirs"):
                made = {"peers": ["ann", "bob"], "encoder": "hashed"}
                httpx2.put(f"{address}/v1/memory/{name}", json=made, headers=bearer(keys["root"]))
            async with agent(address, keys["write"], mode) as client:
                assert {tool.name for tool in (await client.list_tools()).tools} == TOOLS
                chosen = await called(client, "route", question=QUESTION)
                taken = await called(client, "feedback", decision=chosen["decision"], labels={"ann": True})
                assert taken["source"] == "write"  # the key's name
                step = await called(client, "ask", question=QUESTION)
                while step["next"] is not None:
                    step = await called(
                        client, "add_answer", ref=step["ref"], peer=step["next"], answer="391"
                    )
                assert step["decision"]["answer"] == "391"
                assert "no namespace 'theirs'" in await refused(client, "trust", namespace="theirs")
                assert "no namespace 'theirs'" in await refused(
                    client, "route", question=QUESTION, namespace="theirs"
                )
            async with agent(address, keys["read"], mode) as client:
                assert (await called(client, "explain", decision=chosen["decision"]))["chosen"]
                assert (await called(client, "trust"))["peers"]["ann"]["prob"] > 0.5
                writes = {
                    "route": {"question": QUESTION},
                    "vote": {"answers": {"ann": "1"}},
                    "ask": {"question": QUESTION},
                    "add_answer": {"ref": step["ref"], "peer": "ann", "answer": "1"},
                    "feedback": {"decision": chosen["decision"], "labels": {"ann": False}},
                }
                for tool, arguments in writes.items():
                    message = await refused(client, tool, **arguments)
                    assert message == "key 'read' may not write in 'mine'; use a key that may"
            async with agent(address, keys["root"], mode) as client:
                assert (await called(client, "trust", namespace="theirs"))["peers"]["ann"]["effective"] == 0.0

    asyncio.run(main())
    written = [json.loads(line) for line in audit.read_text().splitlines()]
    assert [
        (line["key"], line["action"], line["namespace"]) for line in written if line["key"] != "root"
    ] == [("write", "feedback", "mine")]


def test_a_call_without_a_key_is_401(locked_service, keys):
    body = call_body("trust", {"namespace": "mine"})
    answer = locked_service.post("/mcp", json=body, headers=ACCEPT)
    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
    answer = locked_service.post("/mcp", json=body, headers=ACCEPT | bearer(keys["read"]))
    assert set(answer.json()["result"]["structuredContent"]["peers"]) == {"ann", "bob"}


def call_body(tool, arguments):
    return {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": tool, "arguments": arguments},
    }


ACCEPT = {"accept": "application/json, text/event-stream"}


def test_other_sites_other_methods_and_large_bodies_are_refused():
    with served(limits=RequestLimits(body_bytes=2000)) as http:
        body = call_body("trust", {})
        assert http.post("/mcp", json=body, headers=ACCEPT).status_code == 200
        assert http.post("/mcp", json=body, headers=ACCEPT | {"host": "evil.example"}).status_code == 421
        assert (
            http.post("/mcp", json=body, headers=ACCEPT | {"origin": "http://evil.example"}).status_code
            == 403
        )
        large = json.dumps(call_body("trust", {"question": "x" * 3000})).encode()
        headers = ACCEPT | {"content-type": "application/json"}
        assert http.post("/mcp", content=large, headers=headers).status_code == 413
        pieces = (large[i : i + 500] for i in range(0, len(large), 500))
        assert http.post("/mcp", content=pieces, headers=headers).status_code == 413
        for method in ("GET", "DELETE", "PUT"):
            assert http.request(method, "/mcp", headers=ACCEPT).status_code == 405


def test_the_log_of_the_program_is_left_alone():
    before = logging.getLogger().handlers[:], logging.getLogger().level
    service.create_app(ServerConfig(log="off"))
    assert (logging.getLogger().handlers, logging.getLogger().level) == before


def test_without_the_library_the_service_has_no_such_route(monkeypatch):
    monkeypatch.setattr(service, "find_spec", lambda name: None)
    with served() as http:
        assert http.post("/mcp", json=call_body("trust", {}), headers=ACCEPT).status_code == 404
        assert http.get("/healthz").status_code == 200
