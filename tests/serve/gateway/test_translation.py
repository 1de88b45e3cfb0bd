"""Requests of every block type from each protocol to the others and back, without loss if that is claimed."""

import dataclasses
import itertools
import json

import pytest

from sigma_mem.serve.config import Upstream
from sigma_mem.serve.gateway.chat import CHAT
from sigma_mem.serve.gateway.messages import MESSAGES
from sigma_mem.serve.gateway.protocol import Call, ModelReply, Text, Usage
from sigma_mem.serve.gateway.responses import RESPONSES
from sigma_mem.serve.gateway.upstream import sent_to

PIXEL = "data:image/png;base64,iVBORw0KGgo="
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}


def NOTHING(what):
    raise AssertionError(f"{what} is lost")


CHAT_BODY = {
    "model": "sigma-mem",
    "messages": [
        {"role": "system", "content": "Be brief."},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Look:"},
                {"type": "image_url", "image_url": {"url": PIXEL}},
            ],
        },
        {
            "role": "assistant",
            "content": "I count.",
            "tool_calls": [
                {"id": "call_1", "type": "function", "function": {"name": "count", "arguments": '{"a":1}'}},
                {"id": "call_2", "type": "function", "function": {"name": "count", "arguments": '{"a":2}'}},
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "one"},
        {"role": "tool", "tool_call_id": "call_2", "content": "two"},
        {"role": "user", "content": "And now?"},
    ],
    "tools": [
        {
            "type": "function",
            "function": {"name": "count", "description": "Counts.", "parameters": SCHEMA, "strict": True},
        }
    ],
    "tool_choice": {"type": "function", "function": {"name": "count"}},
    "parallel_tool_calls": False,
    "max_completion_tokens": 100,
    "temperature": 0.5,
    "top_p": 0.9,
    "reasoning_effort": "high",
    "response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA}},
    "user": "ann",
    "metadata": {"trace": "7"},
}
MESSAGES_BODY = {
    "model": "sigma-mem",
    "max_tokens": 100,
    "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
    "messages": [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Look:"},
                {
                    "type": "image",
                    "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="},
                },
                {"type": "image", "source": {"type": "url", "url": "https://images.example.com/1.png"}},
            ],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "I count."},
                {"type": "tool_use", "id": "toolu_1", "name": "count", "input": {"a": 1}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": "one"},
                {"type": "text", "text": "And now?"},
            ],
        },
    ],
    "tools": [{"name": "count", "description": "Counts.", "input_schema": SCHEMA}],
    "tool_choice": {"type": "any", "disable_parallel_tool_use": True},
    "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": SCHEMA}},
}
RESPONSES_BODY = {
    "model": "sigma-mem",
    "instructions": "Be brief.",
    "input": [
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": "Look:"},
                {"type": "input_image", "image_url": PIXEL, "detail": "auto"},
            ],
        },
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "I count.", "annotations": []}],
        },
        {"type": "function_call", "call_id": "call_1", "name": "count", "arguments": '{"a":1}'},
        {"type": "function_call_output", "call_id": "call_1", "output": "one"},
        {"role": "user", "content": "And now?"},
    ],
    "tools": [
        {"type": "function", "name": "count", "description": "Counts.", "parameters": SCHEMA, "strict": True}
    ],
    "tool_choice": "required",
    "parallel_tool_calls": False,
    "max_output_tokens": 100,
    "temperature": 0.5,
    "reasoning": {"effort": "medium"},
    "text": {"format": {"type": "json_schema", "name": "answer", "schema": SCHEMA}},
    "store": False,
    "include": ["reasoning.encrypted_content"],
    "prompt_cache_key": "7",
}
ASK = [{"role": "user", "content": "x"}]
BODIES = {CHAT: CHAT_BODY, MESSAGES: MESSAGES_BODY, RESPONSES: RESPONSES_BODY}


@pytest.mark.parametrize(("one", "other"), list(itertools.permutations(BODIES, 2)), ids=lambda p: p.name)
def test_a_request_comes_back_as_it_was(one, other):
    prompt = one.prompt(BODIES[one], NOTHING)
    assert len(prompt.messages) >= 4
    there = other.request(prompt, NOTHING)
    json.dumps(there)
    again = other.prompt(there, NOTHING)
    assert dataclass_without_strict(again) == dataclass_without_strict(prompt)
    assert one.request(again, NOTHING)["tools"] == one.request(prompt, NOTHING)["tools"] or one is not CHAT


def dataclass_without_strict(prompt):
    """`strict` is said or not, by protocol; false is what it means if it is not said."""
    tools = tuple(dataclasses.replace(tool, strict=bool(tool.strict)) for tool in prompt.tools)
    return dataclasses.replace(prompt, tools=tools, messages=merged(prompt.messages))


def merged(messages):
    """Turns in a row by the same role are one: results of tools and what the user says with them."""
    turns = []
    for message in messages:
        if turns and turns[-1][0] == message.role:
            turns[-1] = (message.role, turns[-1][1] + message.parts)
        else:
            turns.append((message.role, message.parts))
    return tuple(turns)


def test_a_result_of_a_tool_that_failed_says_so_in_words_to_others():
    failed = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "no such file", "is_error": True}
    body = {"max_tokens": 9, "messages": [{"role": "user", "content": [failed]}]}
    prompt = MESSAGES.prompt(body, NOTHING)
    assert MESSAGES.request(prompt, NOTHING)["messages"][0]["content"][0]["is_error"] is True
    (result,) = CHAT.request(prompt, NOTHING)["messages"]
    assert [part["text"] for part in result["content"]] == ["The tool failed:", "no such file"]
    (item,) = RESPONSES.request(prompt, NOTHING)["input"]
    assert [part["text"] for part in item["output"]] == ["The tool failed:", "no such file"]


def test_ids_of_calls_are_written_as_anthropic_takes_them():
    """Kimi's are functions.count:0, which Anthropic refuses."""
    call = {"id": "functions.count:0", "type": "function", "function": {"name": "count", "arguments": "{}"}}
    said = {"role": "assistant", "content": None, "tool_calls": [call]}
    result = {"role": "tool", "tool_call_id": "functions.count:0", "content": "1"}
    sent = MESSAGES.request(CHAT.prompt({"messages": [*ASK, said, result]}, NOTHING), NOTHING)
    use, given = (message["content"][0] for message in sent["messages"][1:])
    assert use["id"] == given["tool_use_id"] == "functions_count_0"
    (shown,) = MESSAGES.response(CHAT.reply({"choices": [{"message": said}]}), {})["content"]
    assert shown["id"] == "functions.count:0"  # which comes back to Kimi, as it wrote it


def test_developers_speak_as_the_system_to_servers_of_chat():
    """Few servers but OpenAI's know the role, and there both mean the same."""
    items = [{"role": "developer", "content": "Be brief."}, *ASK]
    body = RESPONSES.prompt({"input": items}, NOTHING)
    assert CHAT.request(body, NOTHING)["messages"][0] == {"role": "system", "content": "Be brief."}
    assert RESPONSES.request(body, NOTHING)["input"][0]["role"] == "developer"


def test_images_that_a_tool_gave_come_after_its_result_in_a_chat():
    blocks = [{"type": "tool_result", "tool_use_id": "1", "content": [{"type": "text", "text": "a"}, SHOT]}]
    blocks += [{"type": "tool_result", "tool_use_id": "2", "content": "b"}, {"type": "text", "text": "And?"}]
    one, two, shown = CHAT.request(MESSAGES.prompt(message(*blocks), NOTHING), NOTHING)["messages"]
    assert [part["text"] for part in one["content"]] == [
        "a",
        "The images of this result are in the user's next message.",
    ]
    assert (one["role"], two["content"], shown["role"]) == ("tool", "b", "user")
    said, of, image = shown["content"]
    assert (said["text"], of["text"]) == ("And?", "The images of the result 1:")
    assert image["image_url"]["url"] == PIXEL


def message(*blocks, **more):
    return {"max_tokens": 9, "messages": [{"role": "user", "content": list(blocks)}], **more}


SHOT = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
LOSSES = [
    (CHAT, MESSAGES, {"messages": [], "seed": 0}, "seed"),
    (CHAT, MESSAGES, {"messages": [], "modalities": ["text", "audio"]}, "modalities"),
    (CHAT, MESSAGES, {"messages": [], "n": 2}, "n"),
    (CHAT, MESSAGES, {"messages": [], "temperature": 1.5}, "temperature above 1"),
    (CHAT, MESSAGES, {"messages": [], "reasoning_effort": "minimal"}, "effort minimal"),
    (CHAT, MESSAGES, {"messages": [], "response_format": {"type": "json_object"}}, "JSON without a schema"),
    (CHAT, RESPONSES, {"messages": [], "stop": "END"}, "stop"),
    (
        CHAT,
        RESPONSES,
        {"messages": [{"role": "user", "content": [{"type": "input_audio"}]}]},
        "messages.input_audio",
    ),
    (CHAT, RESPONSES, {"messages": [], "tools": [{"type": "custom", "custom": {}}]}, "tools.custom"),
    (MESSAGES, CHAT, message(stop_sequences=["END"]), "stop_sequences"),
    (MESSAGES, CHAT, message(thinking={"type": "enabled", "budget_tokens": 2000}), "thinking"),
    (
        MESSAGES,
        CHAT,
        message(context_management={"edits": [{"type": "clear_tool_uses_20250919"}]}),
        "context_management",
    ),
    (MESSAGES, CHAT, message({"type": "thinking", "thinking": "", "signature": ""}), "thinking"),
    (MESSAGES, CHAT, message({"type": "document", "source": {}}), "messages.document"),
    (MESSAGES, CHAT, message(top_k=5), "top_k"),
    (MESSAGES, CHAT, message(tools=[{"type": "bash_20250124", "name": "bash"}]), "tools.bash_20250124"),
    (RESPONSES, CHAT, {"input": "x", "previous_response_id": "resp_1"}, "previous_response_id"),
    (RESPONSES, CHAT, {"input": "x", "reasoning": {"summary": "detailed"}}, "reasoning.summary"),
    (RESPONSES, CHAT, {"input": [{"type": "reasoning", "id": "rs_1", "summary": []}]}, "reasoning"),
    (
        RESPONSES,
        CHAT,
        {"input": "x", "include": ["web_search_call.results"]},
        "include.web_search_call.results",
    ),
    (RESPONSES, MESSAGES, {"input": "x", "text": {"verbosity": "low"}}, "verbosity"),
]


@pytest.mark.parametrize(("one", "other", "body", "what"), LOSSES, ids=[loss[-1] for loss in LOSSES])
def test_what_would_be_lost_is_named_and_may_be_allowed(one, other, body, what):
    lost = []
    other.request(one.prompt(body, lost.append), lost.append)
    assert lost == [what]
    request = one.read({"model": "sigma-mem", **body, one.turns: body[one.turns] or ASK}, {})
    for allowed, left in (((), [what]), ((what,), []), (("*",), [])):
        peer = Upstream(name="a", base_url="http://127.0.0.1/v1", protocols=(other.name,), may_lose=allowed)
        sent, lost = sent_to(peer, request)
        assert (sent.protocol, lost) == (other, left)
        json.dumps(sent.body)


def test_a_field_that_may_be_lost_by_name_is_not_sent_to_models_that_refuse_it():
    body = {"model": "sigma-mem", "messages": ASK, "temperature": 0.5, "top_p": 0.9}
    peer = Upstream(name="a", base_url="http://127.0.0.1/v1", protocols=("messages",))
    for allowed, kept in (((), {0.5, 0.9}), (("temperature", "thinking"), {0.9}), (("*",), {0.5, 0.9})):
        sent, lost = sent_to(dataclasses.replace(peer, may_lose=allowed), CHAT.read(body, {}))
        assert {sent.body[key] for key in ("temperature", "top_p") if key in sent.body} == kept
        assert lost == []


CODING_AGENTS = [
    (
        MESSAGES,
        message(
            {"type": "text", "text": "Count the lines.", "cache_control": {"type": "ephemeral"}},
            thinking={"type": "adaptive"},
            context_management={"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
            output_config={"effort": "high"},
            metadata={"user_id": "{}"},
        ),
    ),
    (
        RESPONSES,
        {
            "input": [{"type": "message", "id": "msg_1", "role": "developer", "content": "Be brief."}],
            "reasoning": {"summary": "auto"},
            "store": False,
            "include": ["reasoning.encrypted_content"],
            "prompt_cache_key": "7",
            "client_metadata": {},
        },
    ),
]


@pytest.mark.parametrize(("one", "body"), CODING_AGENTS, ids=["Claude Code", "Codex"])
def test_what_a_coding_agent_leaves_to_the_model_is_no_loss(one, body):
    for other in BODIES:
        other.request(one.prompt(body, NOTHING), NOTHING)


def test_a_request_that_cannot_be_read_is_lost_whatever_is_allowed():
    request = CHAT.read({"model": "sigma-mem", "messages": [{"role": "user", "content": [{}]}]}, {})
    peer = Upstream(name="a", base_url="http://127.0.0.1/v1", protocols=("messages",), may_lose=("*",))
    assert sent_to(peer, request)[1] == ["what is no request of chat"]


CALL = Call("call_1", "count", '{"a":1}')
REPLIES = [
    ModelReply((Text("391"),), "end", Usage(10, 5, 4, 0, 0)),
    ModelReply((Text("39"),), "length", Usage(10, 5)),
    ModelReply((Text("no"),), "refusal", Usage(10, 5)),
    ModelReply((Text("I count."), CALL), "tool", Usage(10, 5, 4, 2, 0)),
    ModelReply((CALL, Call("call_2", "count", "{}")), "tool", None),
]


@pytest.mark.parametrize("protocol", BODIES, ids=lambda p: p.name)
@pytest.mark.parametrize("reply", REPLIES, ids=["end", "length", "refusal", "tool", "two tools"])
def test_an_answer_comes_back_as_it_was_whole_and_streamed(protocol, reply):
    whole = protocol.response(reply, {})
    protocol.check(whole)
    again = protocol.reply(whole)
    assert (again.parts, again.stop, again.usage or Usage()) == (
        reply.parts,
        reply.stop,
        reply.usage or Usage(),
    )
    events = list(protocol.events(whole))
    assert any(protocol.is_last(event) for event in events)
    streamed, end = gathered(protocol, events)
    assert (streamed, end.stop, end.usage or Usage()) == (again.parts, again.stop, again.usage or Usage())
    writer = protocol.writer({"stream_options": {"include_usage": True}})
    reader = protocol.reader(protocol)
    deltas = [delta for event in events for delta in reader.feed(event)]
    written = [event for delta in [*deltas, end] for event in writer.write(delta)]
    assert gathered(protocol, written) == (streamed, end)


def piece(finish=None, **delta):
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def call_piece(arguments, **more):
    return {"index": 0, **more, "function": {"name": more.get("id") and "count", "arguments": arguments}}


ODD_STREAMS = {
    "one index for all calls": [
        piece(tool_calls=[call_piece('{"a":1}', id="call_1"), call_piece("{}", id="call_2")]),
        piece("tool_calls"),
    ],
    "nulls, and stop": [
        piece(role="assistant", content=None, tool_calls=None),
        piece(tool_calls=[call_piece(None, id="call_1")]),
        piece(tool_calls=[call_piece('{"a":1}', id=None)]),
        piece(tool_calls=[call_piece("{}", id="call_2") | {"index": 1}]),
        piece("stop"),
    ],
}


@pytest.mark.parametrize("events", ODD_STREAMS.values(), ids=list(ODD_STREAMS))
def test_calls_come_out_right_as_some_servers_stream_them(events):
    """Ollama gave every call the index 0 and ended with "stop"; vLLM sends nulls."""
    parts, end = gathered(CHAT, events)
    assert (parts, end.stop) == ((CALL, Call("call_2", "count", "{}")), "tool")
    writer = MESSAGES.writer({})
    reader = CHAT.reader(CHAT)
    deltas = [delta for event in events for delta in reader.feed(event)]
    written = [event for delta in [*deltas, reader.end()] for event in writer.write(delta)]
    assert gathered(MESSAGES, written)[0] == parts


def test_an_answer_with_calls_ended_in_them_whatever_the_server_says():
    call = {"id": "call_1", "type": "function", "function": {"name": "count", "arguments": None}}
    body = {"choices": [{"message": {"content": None, "tool_calls": [call]}, "finish_reason": "stop"}]}
    assert CHAT.reply(body) == ModelReply((Call("call_1", "count", ""),), "tool", None)


def gathered(protocol, events):
    """The parts that a stream adds up to, and its end."""
    texts, calls, reader = [], {}, protocol.reader(protocol)
    for event in events:
        for delta in reader.feed(event):
            if isinstance(delta, Text):
                texts.append(delta.text)
            else:
                id, name, said = calls.get(delta.index, (delta.id, delta.name, ""))
                calls[delta.index] = (id, name, said + delta.arguments)
    text = (Text("".join(texts)),) if "".join(texts) else ()
    return (*text, *(Call(*call) for call in calls.values())), reader.end()
