"""Small servers on loopback that speak OpenAI's protocol, well or badly, each in a thread of its own."""

import asyncio
import json
import threading
import time
from collections.abc import Callable
from contextlib import contextmanager

OK = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
EVENTS = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


class FakeUpstream:
    """Answers every request as `behave` says; keeps what it was sent.

    `behave(server, body, writer)` is a coroutine function that writes a response; it may cut the connection
    by raising ConnectionAbortedError.
    """

    def __init__(self, behave):
        self.behave = behave
        self.requests = []  # (path, headers, body)
        self.raw = []  # the bodies as they came
        self.closed = 0  # connections that the other side closed while we were writing
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._ready.wait(10)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def bodies(self):
        return [body for _, _, body in self.requests]

    def stop(self):
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(10)
        assert not self._thread.is_alive()

    def _run(self):
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self):
        self._stopping = asyncio.Event()
        self._tasks = set()
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stopping.wait()
        server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connected(self, reader, writer):
        task = asyncio.current_task()
        self._tasks.add(task)
        try:
            while head := await self._head(reader):
                path, headers = head
                raw = await reader.readexactly(int(headers.get("content-length", 0)))
                self.requests.append((path, headers, json.loads(raw) if raw else None))
                self.raw.append(raw)
                await self.behave(self, self.requests[-1][2], writer)
                await writer.drain()
        except ConnectionAbortedError:
            writer.transport.abort()
        except (ConnectionError, asyncio.IncompleteReadError):
            self.closed += 1
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _head(self, reader):
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            return None
        first, *lines = head.decode().strip().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines)
        return first.split(" ")[1], {name.lower(): value for name, value in headers.items()}


@contextmanager
def upstream(behave):
    """A running server."""
    server = FakeUpstream(behave)
    try:
        yield server
    finally:
        server.stop()


def send_json(writer, body, status="200 OK", headers=""):
    raw = json.dumps(body).encode()
    head = f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\n{headers}"
    writer.write(f"{head}content-length: {len(raw)}\r\n\r\n".encode() + raw)


def send_event(writer, data):
    raw = f"data: {data if isinstance(data, str) else json.dumps(data)}\n\n".encode()
    writer.write(f"{len(raw):x}\r\n".encode() + raw + b"\r\n")


def usage(prompt=10, completion=5):
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": 1},
    }


def completion(text, **more):
    message = {"role": "assistant", "content": text, **more}
    finish = "tool_calls" if more.get("tool_calls") else "stop"
    return {
        "id": "upstream-1",
        "object": "chat.completion",
        "created": 1,
        "model": "its-own-name",
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": usage(),
        "service_tier": "default",
    }


def chunk(delta, finish=None):
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {
        "id": "u-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "its-own-name",
        "choices": [choice],
    }


def says(answer: str | Callable, seconds=0.0, **more):
    """A model that always gives this answer, or what a function makes of the request's body."""

    async def behave(server, body, writer):
        await asyncio.sleep(seconds)
        text = answer(body) if callable(answer) else answer
        if "input" in body:  # embeddings
            send_json(writer, {"object": "list", "data": [{"embedding": [1.0]}], "usage": usage(3, 0)})
        elif not body.get("stream"):
            send_json(writer, completion(text, **more))
        else:
            writer.write(EVENTS.encode())
            send_event(writer, chunk({"role": "assistant", "content": ""}))
            if calls := more.get("tool_calls"):
                send_event(writer, chunk({"tool_calls": [{"index": i, **c} for i, c in enumerate(calls)]}))
            for word in text.split(" ") if text else ():
                send_event(writer, chunk({"content": word + " "}))
                await writer.drain()
            send_event(writer, chunk({}, "tool_calls" if calls else "stop"))
            if (body.get("stream_options") or {}).get("include_usage"):
                send_event(writer, chunk({}) | {"choices": [], "usage": usage()})
            send_event(writer, "[DONE]")
            writer.write(b"0\r\n\r\n")

    return behave


def fails(status="500 Internal Server Error", body=None, headers=""):
    """A server that answers with an error."""

    async def behave(server, _, writer):
        send_json(writer, body or {"error": {"message": "secret stack trace"}}, status, headers)

    return behave


async def says_no_json(server, body, writer):
    raw = b"<html>Welcome to nginx</html>"
    writer.write(f"{OK}content-length: {len(raw)}\r\n\r\n".encode() + raw)


async def says_another_json(server, body, writer):
    send_json(writer, {"choices": "none today", "usage": float("nan")})


async def says_nothing(server, body, writer):
    send_json(writer, {"choices": []})


async def hangs(server, body, writer):
    await asyncio.sleep(30.0)


async def breaks_off(server, body, writer):
    """Cut the connection before any answer."""
    raise ConnectionAbortedError


async def cuts_the_stream(server, body, writer):
    """Two chunks, then the connection is cut."""
    writer.write(EVENTS.encode())
    send_event(writer, chunk({"role": "assistant", "content": "half "}))
    send_event(writer, chunk({"content": "an "}))
    await writer.drain()
    await asyncio.sleep(0.05)
    raise ConnectionAbortedError


async def ends_too_early(server, body, writer):
    """A stream that ends properly for HTTP, in the middle of the answer."""
    writer.write(EVENTS.encode())
    send_event(writer, chunk({"role": "assistant", "content": "half "}))
    writer.write(b"0\r\n\r\n")


async def stalls(server, body, writer):
    """One chunk, then nothing."""
    writer.write(EVENTS.encode())
    send_event(writer, chunk({"role": "assistant", "content": "half "}))
    await writer.drain()
    await asyncio.sleep(30.0)


def wait_until(condition, seconds=5.0):
    """Wait for what another thread does."""
    ends = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < ends, "waited too long"
        time.sleep(0.01)
