"""HTTP connections: requests that two parsers may read differently are refused, stalled ones are closed."""

import asyncio
import contextlib
import json
import logging
import socket
import time
from http.client import HTTPResponse

import pytest

from serve.gateway.conftest import serving
from sigma_mem.serve.config import RequestLimits

seen = []  # what became of streams, as the application sees it


async def answers(scope, receive, send):
    """Reads the request, and answers: at once, slowly, or with more than a client wants to read."""
    while (await receive()).get("more_body", False):
        pass
    if scope["path"] == "/slow":
        await asyncio.sleep(0.5)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    gone = asyncio.create_task(receive())
    for _ in range(200 if scope["path"] == "/flood" else 1):
        await send({"type": "http.response.body", "body": 1_000_000 * b"x", "more_body": True})
        await asyncio.wait((gone,), timeout=0.01)
        if gone.done():
            seen.append(gone.result()["type"])
            return
    await send({"type": "http.response.body", "body": b""})


def listening(**limits):
    return serving(answers, RequestLimits(**limits))


def connection(url):
    return socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), timeout=5)


@pytest.fixture(scope="module")
def server():
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
    with listening() as found:
        yield found
    logging.getLogger("uvicorn.error").setLevel(logging.NOTSET)


def exchanged(server, sent):
    """Status, kind and body of the response to these bytes."""
    with connection(server) as client:
        client.sendall(sent)
        response = HTTPResponse(client)
        response.begin()
        return response.status, response.getheader("content-type"), response.read()


def request(method="POST", target="/a?b=c", body=b'{"x": 1}', headers=(), version="1.1", length=None):
    lines = [f"{method} {target} HTTP/{version}", "Host: localhost", *headers]
    if length is None and body:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


ORDINARY = request(headers=["Content-Type: application/json"])
AMBIGUOUS = {
    "chunked and length": request(headers=["Transfer-Encoding: chunked"], body=b"3\r\nabc\r\n0\r\n\r\n"),
    "two lengths": request(headers=["Content-Length: 3"]),
    "signed length": request(headers=["Content-Length: +3"], body=b"abc", length=0),
    "no length": request(headers=["Content-Length: x"], body=b""),
    "folded length": request(headers=["X-A: b\r\n Content-Length: 3"], body=b"abc", length=0),
    "control character": request(headers=["X-A: b\x00c"]),
    "space before colon": request(headers=["X-A : b"]),
    "bare line feed": request(headers=["X-A: b\nContent-Length: 3"]),
    "no request": b"hello\r\n\r\n",
    "path that is too long": request(target="/" + 70_000 * "a"),
}


@pytest.mark.parametrize("sent", AMBIGUOUS.values(), ids=AMBIGUOUS)
def test_what_can_be_read_in_two_ways_is_refused(server, sent):
    status, kind, body = exchanged(server, sent)  # to the end: the server closes
    assert (status, kind) == (400, "application/json")
    assert json.loads(body)["error"]["code"] == "invalid_http"


def test_headers_without_end_are_refused(server):
    with connection(server) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n")
        with contextlib.suppress(ConnectionError):
            for n in range(100):
                client.sendall(b"X-A: %b\r\n" % (b"%d" % n * 2_000))
        with contextlib.suppress(ConnectionError):
            assert client.recv(65536).startswith(b"HTTP/1.1 400 ")
        with contextlib.suppress(ConnectionError):
            assert client.recv(1) == b""


def test_a_stalled_connection_is_closed_and_a_busy_one_is_not():
    with listening(request_seconds=0.2) as server:
        for part in (b"", ORDINARY[:20], ORDINARY[:-3], ORDINARY + ORDINARY[:-3]):  # its end never comes
            with connection(server) as client:
                client.sendall(part)
                begun = time.monotonic()
                while client.recv(65536):
                    pass
                assert time.monotonic() - begun < 4
        assert exchanged(server, request(target="/slow"))[0] == 200  # takes longer than that


def test_headers_that_trickle_in_do_not_hold_a_connection():
    with (
        listening(request_seconds=0.4) as server,
        connection(server) as client,
    ):
        client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX-A: ")
        begun = time.monotonic()
        with contextlib.suppress(ConnectionError):
            while time.monotonic() - begun < 10:
                client.sendall(b"a")
                time.sleep(0.05)
        assert time.monotonic() - begun < 5


def test_slow_clients_make_room_for_one_that_sends_a_request():
    with listening(connections=5) as server, contextlib.ExitStack() as slow:
        for _ in range(12):
            client = slow.enter_context(connection(server))
            client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX-A: ")
        for _ in range(3):
            assert exchanged(server, ORDINARY)[0] == 200


def test_a_client_that_does_not_read_is_disconnected():
    seen.clear()
    with listening(request_seconds=0.3) as server, socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", int(server.rpartition(":")[2])))
        client.sendall(request(target="/flood"))
        for _ in range(500):
            if seen:
                break
            time.sleep(0.01)
    assert seen == ["http.disconnect"]
