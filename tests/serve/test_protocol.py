"""The short way of ordinary requests: it answers as uvicorn does, also to odd bytes."""

import asyncio
import json
import logging
import socket
import threading
import time
from contextlib import ExitStack, contextmanager
from http.client import HTTPResponse

import pytest
import uvicorn
from hypothesis import given
from hypothesis import strategies as st
from uvicorn.protocols.http.h11_impl import H11Protocol

from sigma_mem.serve.protocol import ShortProtocol

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
    for n in range(200 if scope["path"].endswith("long") else 3):
        await send({"type": "http.response.body", "body": b"part %d;" % n, "more_body": True})
        await asyncio.wait((watching,), timeout=0.01)
        if watching.done():
            seen.append(watching.result()["type"])
            return
    await send({"type": "http.response.body", "body": b""})
    seen.append((await watching)["type"])


@contextmanager
def listening(protocol, **options):
    config = uvicorn.Config(
        echo,
        http=protocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        date_header=False,
        server_header=False,
        **options,
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
def both():
    """The same application behind our protocol and behind uvicorn's own."""
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
    with ExitStack() as stack:
        yield [stack.enter_context(listening(protocol)) for protocol in (ShortProtocol, H11Protocol)]
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


ORDINARY = request(headers=["Content-Type: application/json", "X-Odd:  padded\t ", "X-Odd: twice"])
REQUESTS = {
    "ordinary": [ORDINARY],
    "head and body apart": [ORDINARY[:-8], ORDINARY[-8:]],
    "in three": [ORDINARY[:-8], ORDINARY[-8:-3], ORDINARY[-3:]],
    "head in two": [ORDINARY[:20], ORDINARY[20:]],
    "no body": [request("GET", body=b"")],
    "escaped path": [request(target="/a%20b%2Fc%C3%A4?d=%20")],
    "keep-alive": [request(headers=["Connection: keep-alive"])],
    "close": [request(headers=["Connection: close"])],
    "old version": [request(version="1.0")],
    "head only": [request("GET", body=b"", headers=["Connection: close"])],
    "other method": [request("PATCH")],
    "large body": [request(body=b"x" * 200_000)],
    "chunked": [request(body=b"", headers=["Transfer-Encoding: chunked"]) + b"3\r\nabc\r\n0\r\n\r\n"],
    "chunked and length": [
        request(headers=["Transfer-Encoding: chunked"], body=b"3\r\nabc\r\n0\r\n\r\n"),
    ],
    "two lengths": [request(headers=["Content-Length: 3"])],
    "signed length": [request(headers=["Content-Length: +3"], body=b"abc", length=0)],
    "no length": [request(headers=["Content-Length: x"], body=b"")],
    "no host": [b"GET / HTTP/1.1\r\nX-A: b\r\n\r\n"],
    "two hosts": [request("GET", body=b"", headers=["Host: evil"])],
    "folded header": [request(headers=["X-A: b\r\n c"])],
    "control character": [request(headers=["X-A: b\x00c"])],
    "space before colon": [request(headers=["X-A : b"])],
    "bare line feed": [request(headers=["X-A: b\nContent-Length: 3"])],
    "whole address": [request("GET", target="http://localhost/a", body=b"")],
    "no request": [b"hello\r\n\r\n"],
    "fails": [request(target="/fails")],
    "streams": [request(target="/stream")],
}


@pytest.mark.parametrize("pieces", REQUESTS.values(), ids=REQUESTS)
def test_a_request_is_answered_as_by_uvicorn(both, pieces):
    ours, theirs = (exchanged(server, pieces) for server in both)
    assert ours == theirs


def test_ordinary_requests_take_the_short_way_and_others_do_not(both, monkeypatch):
    taken = []
    begin = ShortProtocol._hand_over
    monkeypatch.setattr(
        ShortProtocol, "_hand_over", lambda self, data: (taken.append(data), begin(self, data))
    )
    for name in (
        "ordinary",
        "head and body apart",
        "in three",
        "no body",
        "escaped path",
        "keep-alive",
        "streams",
    ):
        exchanged(both[0], REQUESTS[name])
    assert taken == []
    for count, name in enumerate(
        ("chunked", "two lengths", "large body", "close", "folded header", "no host"), 1
    ):
        exchanged(both[0], REQUESTS[name])
        assert len(taken) == count


@given(
    headers=st.lists(
        st.tuples(
            st.sampled_from(
                ["X-A", "x-b", "Accept", "Connection", "Expect", "Content-Length", "Transfer-Encoding"]
            ),
            st.sampled_from(
                ["", "1", "0", "8", " 8 ", "close", "keep-alive", "chunked", "é", "a\tb", "100-continue"]
            ),
        ),
        max_size=4,
    ),
    target=st.sampled_from(["/", "/a?b", "*", "/a b", "//x", "/ä", "/%zz"]),
    body=st.sampled_from([b"", b"12345678", b"8\r\n12345678\r\n0\r\n\r\n"]),
)
def test_any_headers_are_read_as_by_uvicorn(both, headers, target, body):
    sent = request("POST", target, body, [f"{name}: {value}" for name, value in headers], length=0)
    sent += b"\r\n\r\n" + ORDINARY.replace(b"Host: localhost", b"Host: localhost\r\nConnection: close")
    ours, theirs = (outcome(server, sent) for server in both)
    assert ours == theirs


def outcome(server, sent):
    """The statuses of all responses until the server closes, and the bodies as the application saw them."""
    with socket.create_connection(server.address, timeout=5) as client:
        client.sendall(sent)
        client.shutdown(socket.SHUT_WR)
        data = b""
        while part := client.recv(65536):
            data += part
    return [line for line in data.split(b"\r\n") if line.startswith((b"HTTP/", b"{"))]


def test_requests_on_one_connection_are_answered_in_order(both):
    targets = ["/slow?1", "/a?2", "/stream", "/a?3"]
    sent = b"".join(request(target=target) for target in targets)
    ours, theirs = (exchanged(server, [sent], len(targets)) for server in both)
    assert ours == theirs
    assert [status for status, _, _ in ours[0]] == [200] * 4
    assert not ours[1]


def test_after_a_short_way_a_connection_can_take_the_long_one(both):
    sent = [ORDINARY, REQUESTS["chunked"][0], ORDINARY]
    ours, theirs = (exchanged(server, sent, 3) for server in both)
    assert ours == theirs
    assert [status for status, _, _ in ours[0]] == [200] * 3


def test_a_header_with_a_line_break_never_leaves(both):
    with socket.create_connection(both[0].address, timeout=5) as client:
        client.sendall(request(target="/splits"))
        assert b"x-b: 2" not in client.recv(65536)


def test_a_stream_ends_when_its_client_goes(both):
    seen.clear()
    with socket.create_connection(both[0].address, timeout=5) as client:
        client.sendall(request(target="/stream/long"))
        assert b"part 0" in client.recv(65536)
    for _ in range(200):
        if seen:
            break
        time.sleep(0.01)
    assert seen == ["http.disconnect"]


def test_an_idle_connection_is_closed_and_a_busy_one_is_not():
    with listening(ShortProtocol, timeout_keep_alive=0.2) as server:
        with socket.create_connection(server.address, timeout=5) as client:
            client.sendall(ORDINARY[:-3])  # its end never comes
            begun = time.monotonic()
            assert client.recv(1) == b""
            assert time.monotonic() - begun < 4
        found, _ = exchanged(server, [request(target="/slow")])  # takes longer than that
        assert found[0][0] == 200


def test_a_stop_waits_for_the_response_and_says_that_it_is_the_last():
    with listening(ShortProtocol) as server, socket.create_connection(server.address, timeout=5) as client:
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


def test_too_many_at_once_are_refused():
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
    with listening(ShortProtocol, limit_concurrency=2) as server:
        with socket.create_connection(server.address, timeout=5):
            found, _ = exchanged(server, [ORDINARY])
        assert found[0][0] == 503
