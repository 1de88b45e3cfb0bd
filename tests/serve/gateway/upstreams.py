"""Small models on loopback that speak one protocol each, well or badly, each in a thread of its own."""

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
    """An event, with its name if it has a type."""
    name = f"event: {data['type']}\n" if "type" in data else ""
    raw = f"{name}data: {data if isinstance(data, str) else json.dumps(data)}\n\n".encode()
    writer.write(f"{len(raw):x}\r\n".encode() + raw + b"\r\n")


async def send_answer(writer, body, whole, events, cut_after=None):
    """A whole answer, or its events if the request wants those; the connection may break after some."""
    if not body.get("stream"):
        send_json(writer, whole)
        return
    writer.write(EVENTS.encode())
    for number, event in enumerate(events(whole, body)):
        if number == cut_after:
            await writer.drain()
            await asyncio.sleep(0.05)
            raise ConnectionAbortedError
        send_event(writer, event)
        await writer.drain()
    writer.write(b"0\r\n\r\n")


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


def chat_events(whole, body):
    message = whole["choices"][0]["message"]
    yield chunk({"role": "assistant", "content": ""})
    if calls := message.get("tool_calls"):
        yield chunk({"tool_calls": [{"index": i, **call} for i, call in enumerate(calls)]})
    for word in message["content"].split(" ") if message["content"] else ():
        yield chunk({"content": word + " "})
    yield chunk({}, whole["choices"][0]["finish_reason"])
    if (body.get("stream_options") or {}).get("include_usage"):
        yield chunk({}) | {"choices": [], "usage": usage()}
    yield "[DONE]"


def says(answer: str | Callable, seconds=0.0, **more):
    """A model for chat that always gives this answer, or what a function makes of the request's body."""

    async def behave(server, body, writer):
        await asyncio.sleep(seconds)
        text = answer(body) if callable(answer) else answer
        if "input" in body:  # embeddings
            send_json(writer, {"object": "list", "data": [{"embedding": [1.0]}], "usage": usage(3, 0)})
        else:
            await send_answer(writer, body, completion(text, **more), chat_events)

    return behave


def chat(text, calls=()):
    made = [
        {"id": id, "type": "function", "function": {"name": name, "arguments": json.dumps(given)}}
        for id, name, given in calls
    ]
    return completion(text or None, **({"tool_calls": made} if made else {}))


def message(text, calls=()):
    content = [{"type": "text", "text": text}] if text else []
    content += [
        {"type": "tool_use", "id": id, "name": name, "input": arguments} for id, name, arguments in calls
    ]
    return {
        "id": "msg_upstream",
        "type": "message",
        "role": "assistant",
        "model": "its-own-name",
        "content": content,
        "stop_reason": "tool_use" if calls else "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": 9,
            "output_tokens": 5,
            "cache_read_input_tokens": 1,
            "service_tier": "standard",
        },
    }


def message_events(whole, body):
    began = {**whole, "content": [], "stop_reason": None}
    began["usage"] = {"input_tokens": 9, "output_tokens": 1, "cache_read_input_tokens": 1}
    yield {"type": "message_start", "message": began}
    yield {"type": "ping"}
    for index, block in enumerate(whole["content"]):
        kind = block["type"]
        empty = {"text": ""} if kind == "text" else {"input": {}}
        yield {"type": "content_block_start", "index": index, "content_block": block | empty}
        if kind == "text":
            deltas = [{"type": "text_delta", "text": word + " "} for word in block["text"].split(" ")]
        else:
            raw = json.dumps(block["input"])
            deltas = [
                {"type": "input_json_delta", "partial_json": raw[i : i + 3]} for i in range(0, len(raw), 3)
            ]
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    ended = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": ended, "usage": {"output_tokens": 5}}
    yield {"type": "message_stop"}


def response(text, calls=()):
    output = []
    if text:
        part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
        said = {"role": "assistant", "status": "completed", "content": [part]}
        output.append({"id": "msg_1", "type": "message", **said})
    output += [
        {
            "id": f"fc_{id}",
            "type": "function_call",
            "call_id": id,
            "name": name,
            "arguments": json.dumps(arguments),
            "status": "completed",
        }
        for id, name, arguments in calls
    ]
    return {
        "id": "resp_upstream",
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "model": "its-own-name",
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "service_tier": "default",
        "usage": {
            "input_tokens": 10,
            "input_tokens_details": {"cached_tokens": 1, "cache_write_tokens": 0},
            "output_tokens": 5,
            "output_tokens_details": {"reasoning_tokens": 2},
            "total_tokens": 15,
        },
    }


def _response_events(whole):
    began = {**whole, "status": "in_progress", "output": [], "usage": None}
    yield {"type": "response.created", "response": began}
    yield {"type": "response.in_progress", "response": began}
    for index, item in enumerate(whole["output"]):
        at = {"item_id": item["id"], "output_index": index}
        empty = {"content": []} if item["type"] == "message" else {"arguments": ""}
        yield {"type": "response.output_item.added", "output_index": index, "item": item | empty}
        if item["type"] == "message":
            (part,) = item["content"]
            at |= {"content_index": 0}
            yield {"type": "response.content_part.added", **at, "part": part | {"text": ""}}
            for word in part["text"].split(" "):
                yield {"type": "response.output_text.delta", **at, "delta": word + " ", "logprobs": []}
            yield {"type": "response.output_text.done", **at, "text": part["text"], "logprobs": []}
            yield {"type": "response.content_part.done", **at, "part": part}
        else:
            yield {"type": "response.function_call_arguments.delta", **at, "delta": item["arguments"]}
            yield {"type": "response.function_call_arguments.done", **at, "arguments": item["arguments"]}
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": "response.completed", "response": whole}


def response_events(whole, body):
    return ({**event, "sequence_number": number} for number, event in enumerate(_response_events(whole)))


SPEAKERS = {
    "chat": ("/v1/chat/completions", chat, chat_events),
    "messages": ("/v1/messages", message, message_events),
    "responses": ("/v1/responses", response, response_events),
}


def speaks(protocol, answer, cut_after=None):
    """A model of this protocol alone; `answer` is its text, or makes (text, calls) of the request's body."""
    path, whole_of, events = SPEAKERS[protocol]

    async def behave(server, body, writer):
        asked = server.requests[-1][0]
        if asked == "/v1/messages/count_tokens" and protocol == "messages":
            send_json(writer, {"input_tokens": len(json.dumps(body["messages"]))})
        elif asked != path:
            send_json(writer, {"error": {"message": "no such path", "type": "not_found"}}, "404 Not Found")
        else:
            text, calls = answer(body) if callable(answer) else (answer, ())
            await send_answer(writer, body, whole_of(text, calls), events, cut_after)

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
