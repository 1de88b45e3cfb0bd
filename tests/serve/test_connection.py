"""HTTP connections: requests that two parsers may read differently are refused, stalled ones are closed."""

import asyncio
import contextlib
import json
import logging
import socket
import threading
import time
from contextlib import contextmanager
from functools import partial
from http.client import HTTPResponse

import pytest
import uvicorn

from sigma_mem.serve.config import RequestLimits
from sigma_mem.serve.server import BoundedProtocol

seen = []  # what became of streams, as the application sees it


async def echo(scope, receive, send):
    """Answers with what arrived."""
    if scope["type"] != "http":
        return
    if scope["path"] == "/fails":
        raise ValueError("on purpose")
    if scope["path"] == "/splits":
        await send({"type": "http.response.start", "status": 200, "headers": [(b"x-a", b"1\r\nx-b: 2")]})
        return
    if scope["path"] == "/slow":
        await asyncio.sleep(0.3)
    if scope["path"].startswith("/stream"):
        await stream(scope, receive, send)
        return
    parts, more = [], True
    while more:
        message = await receive()
        parts.append(message.get("body", b""))
        more = message.get("more_body", False)
    kept = ("method", "path", "query_string", "http_version", "scheme")
    said = {key: scope[key].decode() if isinstance(scope[key], bytes) else scope[key] for key in kept}
    said["headers"] = sorted(
        [name.decode("latin-1"), value.decode("latin-1")] for name, value in scope["headers"]
    )
    said["body"] = b"".join(parts).decode("latin-1")
    body = json.dumps(said).encode()
    headers = [(b"content-length", str(len(body)).encode()), (b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def stream(scope, receive, send):
    await receive()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    watching = asyncio.create_task(receive())
    many, part = scope["path"].endswith(("long", "flood")), b"part %d;"
    if scope["path"].endswith("flood"):
        part += 1_000_000 * b"x"
    for n in range(200 if many else 3):
        await send({"type": "http.response.body", "body": part % n, "more_body": True})
        await asyncio.wait((watching,), timeout=0.01)
        if watching.done():
            seen.append(watching.result()["type"])
            return
    await send({"type": "http.response.body", "body": b""})
    seen.append((await watching)["type"])


@contextmanager
def listening(**limits):
    config = uvicorn.Config(
        echo,
        http=partial(BoundedProtocol, limits=RequestLimits(**limits)),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        date_header=False,
        server_header=False,
    )
    server = uvicorn.Server(config)
    server.install_signal_handlers = lambda: None
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        server.address = listener.getsockname()
        try:
            while not server.started:
                time.sleep(0.01)
            yield server
        finally:
            server.should_exit = True
            thread.join()


@pytest.fixture(scope="module")
def server():
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
    with listening() as found:
        yield found
    logging.getLogger("uvicorn.error").setLevel(logging.NOTSET)


class Shared:
    """A socket whose responses are read from one buffer, one after the other."""

    def __init__(self, client):
        self.file = client.makefile("rb")
        self.file.close = lambda: None

    def makefile(self, mode):
        return self.file


def exchanged(server, pieces, responses=1):
    """Status, some headers and body of every response to the bytes, and whether the server then closed."""
    with socket.create_connection(server.address, timeout=5) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for place, piece in enumerate(pieces):
            if place:
                time.sleep(0.02)
            client.sendall(piece)
        found, reader = [], Shared(client)
        for _ in range(responses):
            response = HTTPResponse(reader)
            response.begin()
            found.append((response.status, response.getheader("content-type"), response.read()))
            if response.will_close:
                break
        client.settimeout(0.05)
        try:
            closed = client.recv(1) == b""
        except TimeoutError:
            closed = False
        return found, closed


def request(method="POST", target="/a?b=c", body=b'{"x": 1}', headers=(), version="1.1", length=None):
    lines = [f"{method} {target} HTTP/{version}", "Host: localhost", *headers]
    if length is None and body:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


ORDINARY = request(headers=["Content-Type: application/json"])
CHUNKED = request(body=b"", headers=["Transfer-Encoding: chunked"]) + b"3\r\nabc\r\n0\r\n\r\n"
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
    ((status, kind, body),), closed = exchanged(server, [sent])
    assert (status, kind) == (400, "application/json")
    assert json.loads(body)["error"]["code"] == "invalid_http"
    assert closed


def test_headers_without_end_are_refused(server):
    with socket.create_connection(server.address, timeout=5) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n")
        with contextlib.suppress(ConnectionError):
            for n in range(100):
                client.sendall(b"X-A: %b\r\n" % (b"%d" % n * 2_000))
        with contextlib.suppress(ConnectionError):
            assert client.recv(65536).startswith(b"HTTP/1.1 400 ")
        with contextlib.suppress(ConnectionError):
            assert client.recv(1) == b""


def test_requests_on_one_connection_are_answered_in_order(server):
    targets = ["/slow?1", "/a?2", "/stream", "/a?3"]
    sent = b"".join(request(target=target) for target in targets) + CHUNKED
    found, closed = exchanged(server, [sent], len(targets) + 1)
    assert [status for status, _, _ in found] == [200] * 5
    assert [json.loads(found[place][2])["query_string"] for place in (0, 1, 3)] == ["1", "2", "3"]
    assert json.loads(found[4][2])["body"] == "abc"
    assert not closed


def test_a_header_with_a_line_break_never_leaves(server):
    with socket.create_connection(server.address, timeout=5) as client:
        client.sendall(request(target="/splits"))
        assert b"x-b: 2" not in client.recv(65536)


def test_a_stream_ends_when_its_client_goes(server):
    seen.clear()
    with socket.create_connection(server.address, timeout=5) as client:
        client.sendall(request(target="/stream/long"))
        assert b"part 0" in client.recv(65536)
    for _ in range(200):
        if seen:
            break
        time.sleep(0.01)
    assert seen == ["http.disconnect"]


def test_a_stalled_connection_is_closed_and_a_busy_one_is_not():
    with listening(request_seconds=0.2) as server:
        for part in (b"", ORDINARY[:20], ORDINARY[:-3], ORDINARY + ORDINARY[:-3]):  # its end never comes
            with socket.create_connection(server.address, timeout=5) as client:
                client.sendall(part)
                begun = time.monotonic()
                while client.recv(65536):
                    pass
                assert time.monotonic() - begun < 4
        found, _ = exchanged(server, [request(target="/slow")])  # takes longer than that
        assert found[0][0] == 200


def test_a_stop_waits_for_the_response_and_says_that_it_is_the_last():
    with listening() as server, socket.create_connection(server.address, timeout=5) as client:
        idle = socket.create_connection(server.address, timeout=5)
        client.sendall(request(target="/slow"))
        time.sleep(0.1)
        server.should_exit = True
        response = HTTPResponse(client)
        response.begin()
        assert (response.status, response.getheader("connection")) == (200, "close")
        assert json.loads(response.read())["path"] == "/slow"
        assert client.recv(1) == b""
        assert idle.recv(1) == b""
        idle.close()


def test_headers_that_trickle_in_do_not_hold_a_connection():
    with (
        listening(request_seconds=0.4) as server,
        socket.create_connection(server.address, timeout=5) as client,
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
            client = slow.enter_context(socket.create_connection(server.address, timeout=5))
            client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX-A: ")
        for _ in range(3):
            found, _ = exchanged(server, [ORDINARY])
            assert found[0][0] == 200


def test_a_client_that_does_not_read_is_disconnected():
    seen.clear()
    with listening(request_seconds=0.3) as server, socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(server.address)
        client.sendall(request(target="/stream/flood"))
        for _ in range(500):
            if seen:
                break
            time.sleep(0.01)
    assert seen == ["http.disconnect"]
