"""What clients send besides a question: odd fields are passed on, translated, or refused in plain words."""

import httpx2
import pytest

from serve.gateway.upstreams import breaks_off, speaks

IMAGE = "data:image/png;base64,iVBORw0KGgo="
PATHS = {"chat": "chat/completions", "messages": "messages", "responses": "responses"}
CALLS = [("call_1", "add", {"a": 1}), ("call_2", "add", {"a": 2})]
TOOL = {"type": "object", "properties": {"a": {"type": "integer"}}}


def post(gateway, protocol, among=None, **fields):
    """A question in a protocol, with some fields more or instead."""
    asked = [{"role": "user", "content": "What is 2 + 2?"}]
    body = {"model": "sigma-mem", "input" if protocol == "responses" else "messages": asked}
    body |= {"max_tokens": 99} if protocol == "messages" else {}
    body |= {} if among is None else {"sigma_mem": {"among": [among]}}
    return httpx2.post(f"{gateway.url}/v1/{PATHS[protocol]}", json=body | fields, timeout=60.0)


def failure(protocol, response):
    """The message of an error, which has the shape of its protocol."""
    body = response.json()
    if protocol == "messages":
        assert body["type"] == "error"
        assert set(body["error"]) >= {"type", "message"}
    else:
        assert set(body["error"]) >= {"type", "message", "code", "param"}
    return body["error"]["message"]


@pytest.mark.parametrize("protocol", PATHS)
def test_a_wrong_model_and_an_empty_conversation_are_refused(three, protocol):
    wrong = post(three, protocol, model="gpt-5")
    assert wrong.status_code == 404
    if protocol == "messages":
        assert wrong.json()["error"]["type"] == "not_found_error"
    assert "GET /v1/models lists the models" in failure(protocol, wrong)
    empty = post(three, protocol, **{"input" if protocol == "responses" else "messages": []})
    assert empty.status_code == 400
    assert "expected" in failure(protocol, empty)


@pytest.mark.parametrize("protocol", PATHS)
def test_fields_that_nobody_knows_go_to_the_peer_of_the_protocol_only(three, protocol):
    assert post(three, protocol, new_field=7).status_code == 200
    assert three.servers[protocol].requests[-1][2]["new_field"] == 7
    other = next(spoken for spoken in PATHS if spoken != protocol)
    refused = post(three, protocol, other, new_field=7, frequency_penalty=0.5)
    assert refused.status_code == 400
    assert f"{other} would lose new_field, frequency_penalty; expected" in failure(protocol, refused)


@pytest.mark.parametrize("among", PATHS)
@pytest.mark.parametrize(
    ("protocol", "fields"),
    [
        ("chat", {"max_tokens": 10**9}),
        ("chat", {"stream_options": {"include_usage": True}, "stream": True}),
        ("chat", {"messages": [{"role": "user", "content": ""}]}),
        ("chat", {"store": False, "metadata": {"a": "b"}, "user": "u"}),
        (
            "chat",
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": IMAGE}}]}]},
        ),
        ("chat", {"frequency_penalty": 0, "presence_penalty": 0.0, "logit_bias": {}, "modalities": ["text"]}),
        ("messages", {"max_tokens": 10**9, "metadata": {"user_id": "u"}}),
        ("messages", {"speed": "fast", "user_profile_id": "u", "diagnostics": {"previous_message_id": "m"}}),
        ("messages", {"system": [{"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral"}}]}),
        ("messages", {"messages": [{"role": "user", "content": []}]}),
        (
            "messages",
            {"messages": [{"role": "user", "content": "?"}, {"role": "system", "content": "Be brief."}]},
        ),
        ("responses", {"max_output_tokens": 10**9, "store": False, "metadata": {"a": "b"}}),
        ("responses", {"include": ["reasoning.encrypted_content"], "client_metadata": {"a": "b"}}),
        ("responses", {"input": [{"role": "user", "content": ""}]}),
    ],
)
def test_what_says_nothing_of_the_answer_stops_nobody(three, protocol, fields, among):
    response = post(three, protocol, among, **fields)
    assert response.status_code == 200, response.text
    assert response.headers["x-sigma-mem-peer"] == among


def test_thoughts_and_reasoning_go_only_to_whom_they_came_from(three):
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    turns = [{"role": "user", "content": "?"}, {"role": "assistant", "content": [thought]}]
    turns.append({"role": "user", "content": "And?"})
    assert post(three, "messages", messages=turns).headers["x-sigma-mem-peer"] == "messages"
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"}
    items = [{"role": "user", "content": "?"}, reasoning, {"role": "user", "content": "And?"}]
    assert post(three, "responses", input=items).headers["x-sigma-mem-peer"] == "responses"


def tool(protocol):
    if protocol == "messages":
        return {"name": "add", "input_schema": TOOL}
    function = {"name": "add", "parameters": TOOL}
    return (
        {"type": "function", "function": function} if protocol == "chat" else {"type": "function", **function}
    )


@pytest.mark.parametrize("spoken", ["messages", "responses"])
@pytest.mark.parametrize("protocol", PATHS)
def test_parallel_calls_of_tools(start, protocol, spoken):
    gateway = start(
        {"ann": speaks(spoken, lambda body: ("", CALLS))}, peers={"ann": {"protocols": (spoken,)}}
    )
    found = post(gateway, protocol, tools=[tool(protocol)]).json()
    if protocol == "chat":
        calls = [call["function"]["name"] for call in found["choices"][0]["message"]["tool_calls"]]
    else:
        items = found["content" if protocol == "messages" else "output"]
        calls = [item["name"] for item in items if item["type"] in ("tool_use", "function_call")]
    assert calls == ["add", "add"]


@pytest.mark.parametrize("protocol", PATHS)
def test_an_answer_that_breaks_off_is_an_error_of_the_protocol(start, protocol):
    gateway = start({"ann": breaks_off}, peers={"ann": {"protocols": (protocol,)}})
    broken = post(gateway, protocol)
    assert broken.status_code == 502
    assert "no upstream answered" in failure(protocol, broken)


def test_text_after_a_call_is_no_loss(three):
    call = {"type": "function_call", "call_id": "c", "name": "add", "arguments": "{}"}
    said = {"role": "assistant", "content": "I add."}
    result = {"type": "function_call_output", "call_id": "c", "output": "4"}
    assert post(
        three, "responses", "chat", input=[{"role": "user", "content": "?"}, call, said, result]
    ).is_success


# ---- references to items, as the Vercel AI SDK sends them by default


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("spoken", ["messages", "responses"])
def test_items_may_be_referred_to(start, spoken, stream):
    def answer(body):
        return ("It is 3.", []) if len(body.get("messages") or body["input"]) > 1 else ("", CALLS[:1])

    peers = {name: {"protocols": (spoken,)} for name in ("ann", "bob")}
    gateway = start({name: speaks(spoken, answer) for name in peers}, peers=peers)
    asked = {"role": "user", "content": "What is 1 + 2?"}
    if stream:
        with gateway.client.responses.stream(model="sigma-mem", input=[asked]) as events:
            first = events.get_final_response().to_dict()
    else:
        first = post(gateway, "responses", input=[asked]).json()
    (item,) = first["output"]
    result = {"type": "function_call_output", "call_id": item["call_id"], "output": "3"}
    reference = {"type": "item_reference", "id": item["id"]}
    second = post(gateway, "responses", input=[asked, reference, result])
    assert second.status_code == 200, second.text
    assert second.json()["model"] == first["model"]
    sent = gateway.servers[first["model"]].requests[-1][2]
    if spoken == "messages":
        assert sent["messages"][1]["content"][0]["id"] == "call_1"
        assert sent["messages"][2]["content"][0]["tool_use_id"] == "call_1"
    else:
        assert sent["input"][1] == reference  # the upstream has it
    unknown = post(gateway, "responses", input=[asked, {"type": "item_reference", "id": "msg_0"}])
    assert unknown.status_code == 400
    assert "store: false" in failure("responses", unknown)
