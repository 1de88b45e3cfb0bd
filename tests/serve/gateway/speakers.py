"""Small models that speak Messages or Responses, and nothing else; `upstreams.says` is one for chat."""

import asyncio
import json

from serve.gateway.upstreams import EVENTS, send_json

REFUSED = {"error": {"message": "no such path", "type": "not_found"}}


def send_named(writer, event):
    raw = f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()
    writer.write(f"{len(raw):x}\r\n".encode() + raw + b"\r\n")


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


def message_events(whole):
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


def response_events(whole):
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


KINDS = {"messages": (message, message_events), "responses": (response, response_events)}


def speaks(protocol, answer, cut_after=None):
    """A model of this protocol; `answer` is its text, or makes (text, calls) of the request's body.

    With `cut_after`, the connection breaks after so many events.
    """
    whole_of, events_of = KINDS[protocol]

    async def behave(server, body, writer):
        path = server.requests[-1][0]
        if path == "/v1/messages/count_tokens" and protocol == "messages":
            send_json(writer, {"input_tokens": len(json.dumps(body["messages"]))})
            return
        if path != f"/v1/{protocol}":
            send_json(writer, REFUSED, "404 Not Found")
            return
        text, calls = answer(body) if callable(answer) else (answer, ())
        whole = whole_of(text, calls)
        if not body.get("stream"):
            send_json(writer, whole)
            return
        writer.write(EVENTS.encode())
        for number, event in enumerate(events_of(whole)):
            if number == cut_after:
                await writer.drain()
                await asyncio.sleep(0.05)
                raise ConnectionAbortedError
            send_named(writer, event | ({"sequence_number": number} if protocol == "responses" else {}))
            await writer.drain()
        writer.write(b"0\r\n\r\n")

    return behave
