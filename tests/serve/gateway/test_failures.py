"""Upstreams that misbehave: the next best peer before the first byte, a clear error after it."""

import asyncio
import itertools
import json
import socket
import time
from contextlib import contextmanager

import httpx2
import openai
import pytest

from serve.gateway.conftest import ASK, ask, memory_of
from serve.gateway.upstreams import (
    EVENTS,
    breaks_off,
    chunk,
    cuts_the_stream,
    ends_too_early,
    fails,
    hangs,
    says,
    says_another_json,
    says_no_json,
    says_nothing,
    send_event,
    send_json,
    stalls,
    wait_until,
)
from sigma_mem.serve.keys import add_key

TOO_LONG = fails("400 Bad Request", {"error": {"message": "context too long", "type": "x", "code": None}})
LIMITED = fails("429 Too Many Requests", headers="retry-after: 60\r\n")
MOVED = fails("307 Temporary Redirect", headers="location: http://127.0.0.1:9/v1/chat/completions\r\n")
MISBEHAVING = {
    "500": fails(),
    "429": LIMITED,
    "wrong key": fails("401 Unauthorized"),
    "too long": TOO_LONG,
    "redirect": MOVED,
    "no JSON": says_no_json,
    "another JSON": says_another_json,
    "no choice": says_nothing,
    "slow": hangs,
    "broken connection": breaks_off,
}
SHORT = {"bad": {"timeout": 0.3}}


def first_to(mem, peer, other):
    """Teach a memory to route to a peer."""
    for _ in range(6):
        mem.feedback(mem.route(ASK), {peer: True, other: False})
    return mem


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("behave", MISBEHAVING.values(), ids=list(MISBEHAVING))
def test_the_next_best_peer_answers_and_the_failure_is_no_wrong_answer(start, behave, stream):
    gateway = start({"bad": behave, "good": says("391")}, peers=SHORT, explore=False)
    mem = first_to(memory_of(gateway), "bad", "good")
    before = mem.route(ASK).probs
    created = gateway.raw(model="sigma-mem", messages=ASK, stream=stream)
    answer = next(iter(created.parse())) if stream else created.parse()
    assert answer.model == "good"
    assert created.headers["x-sigma-mem-peer"] == "good"
    assert created.headers["x-sigma-mem-attempts"] == "2"
    assert list(answer.sigma_mem["failed"]) == ["bad"]
    decision = mem.decision(answer.id)
    assert (decision.peer, decision.served) == ("bad", "good")
    assert mem.route(ASK).probs == pytest.approx(before, abs=0.01)  # an event went by, without a label


@pytest.mark.parametrize("behave", [cuts_the_stream, ends_too_early, stalls])
def test_after_the_first_byte_nobody_else_is_asked(start, behave):
    gateway = start({"bad": behave, "good": says("391")}, peers=SHORT, explore=False)
    first_to(memory_of(gateway), "bad", "good")
    stream = gateway.create(model="sigma-mem", messages=ASK, stream=True)
    assert next(stream).choices[0].delta.content == "half "
    with pytest.raises(openai.APIError, match="broke off"):
        list(stream)
    assert gateway.servers["good"].requests == []


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("model", ["sigma-mem", "sigma-mem/vote", "sigma-mem/ask"])
def test_502_when_nobody_answers_and_no_secret_leaves(start, model, stream):
    gateway = start({"ann": fails(), "bob": breaks_off})
    with pytest.raises(openai.InternalServerError) as error:
        gateway.create(model=model, messages=ASK, stream=stream)
    assert error.value.status_code == 502
    assert error.value.body["type"] == "server_error"
    assert "ann answered 500" in error.value.message
    assert "secret" not in error.value.message
    assert "127.0.0.1" not in error.value.message


def test_a_request_that_everyone_refuses_is_the_clients_to_mend(start):
    gateway = start({"ann": TOO_LONG, "bob": TOO_LONG})
    with pytest.raises(openai.BadRequestError, match="context too long"):
        ask(gateway)
    for _ in range(4):
        with pytest.raises(openai.BadRequestError):
            ask(gateway)
    assert len(gateway.servers["ann"].requests) == 5  # a refusal opens no circuit


@pytest.mark.parametrize("model", ["sigma-mem", "sigma-mem/ask"])
def test_the_deadline_holds_over_all_peers(start, model):
    gateway = start({"ann": hangs, "bob": hangs, "cat": hangs}, deadline=0.6)
    began = time.monotonic()
    with pytest.raises(openai.InternalServerError):
        ask(gateway, model)
    assert time.monotonic() - began < 3.0


def test_a_circuit_opens_after_three_failures_and_the_peer_is_left_alone(start):
    gateway = start({"bad": fails(), "good": says("391")}, explore=False)
    mem = first_to(memory_of(gateway), "bad", "good")
    answers = [ask(gateway) for _ in range(6)]
    assert [a.sigma_mem["attempts"] for a in answers] == [2, 2, 2, 1, 1, 1]
    assert len(gateway.servers["bad"].requests) == 3
    metrics = httpx2.get(f"{gateway.url}/metrics").text
    assert 'sigma_mem_upstream_calls_total{outcome="failed",peer="bad"} 3.0' in metrics
    assert 'sigma_mem_upstream_calls_total{outcome="answered",peer="good"} 6.0' in metrics
    assert 'sigma_mem_decisions_total{read="calibrated-route"} 6.0' in metrics
    last = mem.decision(answers[-1].id)
    assert (last.peer, last.served, last.details["among"]) == ("good", None, ["good"])


def test_a_rate_limit_is_respected_at_once(start):
    gateway = start({"bad": LIMITED, "good": says("391")}, explore=False)
    first_to(memory_of(gateway), "bad", "good")
    assert [ask(gateway).sigma_mem["attempts"] for _ in range(3)] == [2, 1, 1]


def test_a_peer_whose_streams_break_off_is_left_alone(start):
    gateway = start({"bad": cuts_the_stream, "good": says("391")}, explore=False)
    for _ in range(3):
        with pytest.raises(openai.APIError):
            list(gateway.create(model="bad", messages=ASK, stream=True))
    text = httpx2.get(f"{gateway.url}/metrics").text
    assert 'sigma_mem_upstream_calls_total{outcome="failed",peer="bad"} 3.0' in text
    assert 'outcome="answered",peer="bad"' not in text
    assert 'sigma_mem_circuit_open{peer="bad"} 1.0' in text
    assert 'sigma_mem_alarms_total{kind="circuit"} 1.0' in text
    assert ask(gateway).model == "good"
    list(gateway.create(model="good", messages=ASK, stream=True))
    counted = 'sigma_mem_upstream_calls_total{outcome="answered",peer="good"} 2.0'
    assert counted in httpx2.get(f"{gateway.url}/metrics").text


def test_a_client_that_leaves_ends_the_upstreams_stream(start):
    async def talks(server, body, writer):
        writer.write(EVENTS.encode())
        while True:
            send_event(writer, chunk({"content": "and "}))
            await writer.drain()
            await asyncio.sleep(0.01)

    gateway = start({"ann": talks})
    with httpx2.stream(
        "POST",
        f"{gateway.url}/v1/chat/completions",
        json={"model": "sigma-mem", "messages": ASK, "stream": True},
    ) as response:
        next(response.iter_bytes())
    wait_until(lambda: gateway.servers["ann"].closed)


@contextmanager
def asked(gateway, **body):
    """A client that sent a question, which reached the upstream, and reads nothing."""
    raw, address = json.dumps({"messages": ASK, **body}).encode(), httpx2.URL(gateway.url)
    head = "POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
    with socket.create_connection((address.host, address.port)) as client:
        client.sendall(f"{head}content-length: {len(raw)}\r\n\r\n".encode() + raw)
        wait_until(lambda: gateway.servers["ann"].requests)
        yield


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("model", ["sigma-mem", "sigma-mem/vote", "sigma-mem/ask", "ann"])
def test_a_client_that_leaves_before_the_answer_ends_the_upstreams_call(start, model, stream):
    async def thinks(server, body, writer):
        kind = "text/event-stream" if body.get("stream") else "application/json"
        writer.write(
            f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ntransfer-encoding: chunked\r\n\r\n".encode()
        )
        while True:
            writer.write(b"2\r\n\n\n\r\n")
            await writer.drain()
            await asyncio.sleep(0.01)

    gateway = start({"ann": thinks}, peers={"ann": {"timeout": 60.0}})
    upstream = gateway.servers["ann"]
    with asked(gateway, model=model, stream=stream):
        assert not upstream.closed
    wait_until(lambda: upstream.closed)


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"[]",
        b'{"model": "sigma-mem"}',
        b'{"model": "sigma-mem", "messages": []}',
        b'{"model": 3, "messages": [{}]}',
        b'{"model": "sigma-mem", "messages": [{}], "stream": "yes"}',
        b'{"model": "sigma-mem", "messages": [{}], "sigma_mem": 3}',
        b'{"model": "sigma-mem", "messages": [NaN]}',
        b"[" * 100_000,
    ],
    ids=range(9),
)
def test_bad_requests_have_openais_error_body(shared, body):
    response = httpx2.post(f"{shared.url}/v1/chat/completions", content=body)
    assert response.status_code == 400
    assert set(response.json()["error"]) == {"message", "type", "code", "param"}


def test_messages_that_say_nothing_are_still_answered(shared):
    """Whether they make sense is for the upstream to say."""
    for messages in ([{}], [3], [{"role": "user", "content": [{"type": "image_url"}]}], [{"role": "user"}]):
        body = {"model": "sigma-mem", "messages": messages}
        assert httpx2.post(f"{shared.url}/v1/chat/completions", json=body).status_code == 200
    lone = b'{"model": "sigma-mem", "messages": [{"role": "user", "content": "\\ud800 7"}]}'
    assert httpx2.post(f"{shared.url}/v1/chat/completions", content=lone).status_code == 200


def test_what_an_upstream_says_of_a_refusal_does_not_take_its_key_along(start, tmp_path, monkeypatch):
    """Debug pages, and some proxies, quote the headers of a request that they refuse."""

    async def quotes(server, body, writer):
        said = {"error": {"message": f"bad request; headers: {server.requests[-1][1]}"}}
        send_json(writer, said, "400 Bad Request")

    monkeypatch.setenv("ANN_KEY", "sk-TOP-SECRET")
    key = add_key(tmp_path / "keys.json", "team", {"default": "write"}, 0.0)
    gateway = start({"ann": quotes}, peers={"ann": {"key_env": "ANN_KEY"}}, keys=str(tmp_path / "keys.json"))
    for model, stream in itertools.product(("sigma-mem", "ann"), (False, True)):
        body = {"model": model, "messages": ASK, "stream": stream}
        headers = {"authorization": f"Bearer {key}"}
        response = httpx2.post(f"{gateway.url}/v1/chat/completions", json=body, headers=headers)
        assert response.status_code == 400
        assert "SECRET" not in response.text
        assert "127.0.0.1" not in response.text


def test_a_stream_ends_at_the_deadline_whatever_the_upstream_sends(start):
    async def comments(server, body, writer):
        writer.write(EVENTS.encode())
        send_event(writer, chunk({"content": "x"}))
        while True:
            writer.write(b"8\r\n: here\n\n\r\n")
            await writer.drain()
            await asyncio.sleep(0.1)

    gateway = start({"ann": comments}, deadline=1.0)
    began = time.monotonic()
    stream = gateway.create(model="sigma-mem", messages=ASK, stream=True)
    with pytest.raises(openai.APIError, match="broke off"):
        list(stream)
    assert time.monotonic() - began < 3.0
    wait_until(lambda: gateway.servers["ann"].closed)
    assert gateway.context.metrics.running == 0


def test_a_client_that_does_not_read_a_stream_is_left_at_the_deadline(start):
    gateway = start({"ann": says(" ".join(["x" * 80_000] * 100))}, deadline=1.5)
    with asked(gateway, model="sigma-mem", stream=True):
        assert gateway.context.metrics.running == 1
        wait_until(lambda: gateway.context.metrics.running == 0)
