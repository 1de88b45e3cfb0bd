"""Messages and Responses at the gateway: official clients, over upstreams that speak one protocol each."""

import json

import anthropic
import httpx2
import openai
import pydantic
import pytest

from serve.gateway.conftest import memory_of
from serve.gateway.upstreams import EVENTS, says, send_event, speaks
from sigma_mem.serve.keys import add_key

ASK = [{"role": "user", "content": "What is 17 * 23?"}]
SPOKEN = ["chat", "messages", "responses"]
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}


def only(protocol):
    return {"protocols": (protocol,)}


def narrowed(peer):
    return {"sigma_mem": {"among": [peer]}}


@pytest.mark.parametrize("peer", SPOKEN)
def test_a_message_is_answered_and_its_id_takes_feedback(three, peer):
    raw = three.claude().messages.with_raw_response.create(
        model="sigma-mem", max_tokens=99, messages=ASK, system="Be brief.", extra_body=narrowed(peer)
    )
    message = raw.parse()
    assert (message.model, message.content[0].text, message.stop_reason) == (peer, "391", "end_turn")
    assert (message.usage.input_tokens, message.usage.cache_read_input_tokens) == (9, 1)
    assert message.usage.output_tokens == 5
    assert message.id.startswith("msg_")
    assert raw.headers["x-sigma-mem-peer"] == peer
    fed = httpx2.post(f"{three.url}/v1/feedback", json={"id": message.id, "score": 1.0})
    assert fed.json()["labels"] == {peer: 1.0}
    assert memory_of(three).decision(message.id).id == message.sigma_mem["decision"]


@pytest.mark.parametrize("peer", SPOKEN)
def test_a_message_streams(three, peer):
    with three.claude().messages.stream(
        model="sigma-mem", max_tokens=99, messages=ASK, extra_body=narrowed(peer)
    ) as stream:
        assert "".join(stream.text_stream) == "391 "
        message = stream.get_final_message()
    assert (message.model, message.stop_reason, message.usage.output_tokens) == (peer, "end_turn", 5)
    assert memory_of(three).decision(message.id).peer == peer


@pytest.mark.parametrize("peer", SPOKEN)
def test_a_response_is_answered_and_its_id_takes_feedback(three, peer):
    raw = three.client.responses.with_raw_response.create(
        model="sigma-mem", input="What is 17 * 23?", instructions="Be brief.", extra_body=narrowed(peer)
    )
    answer = raw.parse()
    assert (answer.model, answer.output_text, answer.status) == (peer, "391", "completed")
    assert (answer.usage.total_tokens, answer.usage.input_tokens_details.cached_tokens) == (15, 1)
    assert raw.headers["x-sigma-mem-peer"] == peer
    fed = httpx2.post(f"{three.url}/v1/feedback", json={"id": answer.id, "score": 0.0})
    assert fed.json()["labels"] == {peer: -1.0}


@pytest.mark.parametrize("peer", SPOKEN)
def test_a_response_streams(three, peer):
    with three.client.responses.stream(
        model="sigma-mem", input="17 * 23?", extra_body=narrowed(peer)
    ) as stream:
        events = list(stream)
        answer = stream.get_final_response()
    numbers = [event.sequence_number for event in events]
    assert numbers == sorted(set(numbers))
    assert events[0].response.sigma_mem["peer"] == peer
    assert (answer.model, answer.output_text.strip(), answer.usage.output_tokens) == (peer, "391", 5)
    (delta,) = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert delta == "391 "


@pytest.mark.parametrize("peer", SPOKEN)
def test_a_chat_is_answered_by_upstreams_of_other_protocols(three, peer):
    create, extra = three.client.chat.completions.create, {"sigma_mem": {"among": [peer]}}
    answer = create(model="sigma-mem", messages=ASK, extra_body=extra)
    assert (answer.model, answer.choices[0].message.content) == (peer, "391")
    assert (answer.choices[0].finish_reason, answer.usage.total_tokens) == ("stop", 15)
    options = {"stream": True, "stream_options": {"include_usage": True}, "extra_body": extra}
    *chunks, last = create(model="sigma-mem", messages=ASK, **options)
    assert "".join(c.choices[0].delta.content or "" for c in chunks) == "391 "
    assert (last.choices, last.usage.total_tokens) == ([], 15)
    options = {"stream": True, "extra_body": extra}
    assert all(chunk.choices for chunk in create(model="sigma-mem", messages=ASK, **options))


@pytest.mark.parametrize("way", ["sigma-mem/vote", "sigma-mem/ask"])
def test_votes_and_panels_in_both_protocols(three, way):
    message = three.claude().messages.create(model=way, max_tokens=99, messages=ASK)
    assert message.content[0].text == "391"
    with three.claude().messages.stream(model=way, max_tokens=99, messages=ASK) as stream:
        streamed = stream.get_final_message()
    assert (streamed.content[0].text, streamed.stop_reason) == ("391", "end_turn")
    response = three.client.responses.create(model=way, input="17 * 23?")
    *_, last = three.client.responses.create(model=way, input="17 * 23?", stream=True)
    assert (response.output_text, last.response.output_text) == ("391", "391")
    mem = memory_of(three)
    if way == "sigma-mem/vote":
        assert message.usage.output_tokens == 15  # of three
        assert set(mem.decision(message.id).canons) == set(SPOKEN)
    for id in (message.id, streamed.id):
        assert mem.decision(id).ref == id


# ---- tool loops


def turns(seen):
    """Calls a tool until it sees so many results, and then says how many there are."""

    def answer(body):
        raw = json.dumps(body)
        done = raw.count('"tool_result"') + raw.count('"function_call_output"') + raw.count('"role": "tool"')
        return (f"{done} results", ()) if done >= seen else ("", [(f"call_{done}", "count", {"a": done})])

    return answer


def loop_of_messages(gateway, stream):
    tools = [{"name": "count", "description": "Counts.", "input_schema": SCHEMA}]
    asked, ids, peers = list(ASK), [], set()
    while True:
        given = {"model": "sigma-mem", "max_tokens": 99, "messages": asked, "tools": tools}
        if stream:
            with gateway.claude().messages.stream(**given) as events:
                message = events.get_final_message()
        else:
            message = gateway.claude().messages.create(**given)
        ids.append(message.id)
        peers.add(message.model)
        if message.stop_reason != "tool_use":
            return message.content[0].text.strip(), ids, peers
        call = message.content[-1]
        assert call.input == {"a": len(ids) - 1}
        result = {"type": "tool_result", "tool_use_id": call.id, "content": str(call.input["a"])}
        asked += [message.to_param(), {"role": "user", "content": [result]}]


def loop_of_responses(gateway, stream):
    tools = [
        {"type": "function", "name": "count", "description": "Counts.", "parameters": SCHEMA, "strict": False}
    ]
    items, ids, peers = list(ASK), [], set()
    while True:
        given = {"model": "sigma-mem", "input": items, "tools": tools, "store": False}
        if stream:
            *_, last = gateway.client.responses.create(**given, stream=True)
            response = last.response
        else:
            response = gateway.client.responses.create(**given)
        ids.append(response.id)
        peers.add(response.model)
        call = response.output[-1]
        if call.type != "function_call":
            return response.output_text.strip(), ids, peers
        assert json.loads(call.arguments) == {"a": len(ids) - 1}
        result = {"type": "function_call_output", "call_id": call.call_id, "output": call.arguments}
        items += [item.to_dict() for item in response.output] + [result]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("spoken", SPOKEN)
@pytest.mark.parametrize("loop", [loop_of_messages, loop_of_responses])
def test_a_tool_loop_stays_on_its_peer_and_is_one_event(start, loop, spoken, stream):
    names = ["ann", "bob", "cat"]
    gateway = start(
        {name: speaks(spoken, turns(3)) for name in names}, peers={n: only(spoken) for n in names}
    )
    said, ids, peers = loop(gateway, stream)
    assert said == "3 results"
    assert (len(ids), len(peers)) == (4, 1)
    assert len({memory_of(gateway).decision(id).event for id in ids}) == 1
    assert memory_of(gateway).explain(ids[-1]).note == "its peer called the tool"
    (peer,) = peers
    raw = json.dumps(gateway.servers[peer].bodies[-1])
    assert '"call_2"' in raw  # the upstream sees its own ids
    assert "--" not in raw


def test_ten_turns_over_peers_of_all_protocols(start):
    gateway = start({s: speaks(s, turns(10)) for s in SPOKEN}, peers={s: only(s) for s in SPOKEN})
    for loop in (loop_of_messages, loop_of_responses):
        said, ids, peers = loop(gateway, stream=False)
        assert (said, len(ids), len(peers)) == ("10 results", 11, 1)


# ---- what would be lost


def test_a_peer_that_would_lose_something_is_left_out_and_the_response_says_why(three):
    asked = {"max_tokens": 2000, "messages": ASK, "thinking": {"type": "enabled", "budget_tokens": 1024}}
    raw = three.claude().messages.with_raw_response.create(model="sigma-mem", **asked)
    assert raw.parse().model == "messages"
    assert raw.headers["x-sigma-mem-left-out"] == "chat: would lose thinking; responses: would lose thinking"
    assert raw.parse().sigma_mem["left_out"]["chat"] == "would lose thinking"
    with pytest.raises(anthropic.BadRequestError, match="chat would lose thinking") as error:
        three.claude().messages.create(model="chat", **asked)
    assert error.value.body["error"]["type"] == "invalid_request_error"
    search = {"model": "sigma-mem", "input": "x", "tools": [{"type": "web_search"}]}
    assert three.client.responses.create(**search).model == "responses"
    with pytest.raises(openai.BadRequestError, match=r"would lose tools\.web_search"):
        three.client.responses.create(**search, extra_body={"sigma_mem": {"among": ["chat", "messages"]}})
    with pytest.raises(openai.BadRequestError, match="would lose seed"):
        three.create(
            model="sigma-mem", messages=ASK, seed=7, extra_body={"sigma_mem": {"among": ["messages"]}}
        )


def test_what_may_be_lost_is_the_operators_word(start):
    gateway = start({"ann": says("391")}, peers={"ann": {"may_lose": ("thinking", "tools.web_search")}})
    message = gateway.claude().messages.create(
        model="sigma-mem",
        max_tokens=2000,
        messages=[*ASK, {"role": "assistant", "content": [{"type": "redacted_thinking", "data": "x"}]}, *ASK],
        thinking={"type": "adaptive"},
    )
    assert message.content[0].text == "391"
    gateway.client.responses.create(model="sigma-mem", input="x", tools=[{"type": "web_search"}])
    assert "tools" not in gateway.servers["ann"].bodies[-1]


def test_a_request_that_makes_no_sense_goes_only_to_peers_of_its_protocol(three):
    odd = [{"role": "user", "content": [{"kind": "text"}]}, 7]
    for path, body in (
        ("messages", {"messages": odd}),
        ("responses", {"input": odd}),
        ("chat/completions", {"messages": odd}),
    ):
        response = httpx2.post(f"{three.url}/v1/{path}", json={"model": "sigma-mem", **body})
        assert response.json()["model"] == path.partition("/")[0]


# ---- streams that break off


@pytest.mark.parametrize("spoken", SPOKEN)
def test_a_stream_that_is_cut_ends_in_the_protocols_own_error(start, spoken):
    after = 3 if spoken == "chat" else 6
    gateway = start({"bad": speaks(spoken, "half an answer", after)}, peers={"bad": only(spoken)})
    events = gateway.claude().messages.create(model="sigma-mem", max_tokens=9, messages=ASK, stream=True)
    assert next(iter(events)).type == "message_start"
    with pytest.raises(anthropic.APIStatusError, match="broke off") as error:
        list(events)
    assert error.value.body["error"]["type"] == "api_error"
    *_, last = gateway.client.responses.create(model="sigma-mem", input="x", stream=True)
    assert last.type == "response.failed"
    assert "broke off" in last.response.error.message
    with pytest.raises(openai.APIError, match="broke off"):
        list(gateway.create(model="sigma-mem", messages=ASK, stream=True))


def test_an_error_inside_a_stream_is_a_failure_without_the_upstreams_words(start):
    async def overloaded(server, body, writer):
        writer.write(EVENTS.encode())
        send_event(writer, {"type": "error", "error": {"type": "overloaded_error", "message": "secret host"}})
        writer.write(b"0\r\n\r\n")

    gateway = start(
        {"bad": overloaded, "good": speaks("messages", "391")},
        peers={n: only("messages") for n in ("bad", "good")},
    )
    for _ in range(4):
        with gateway.claude().messages.stream(model="sigma-mem", max_tokens=9, messages=ASK) as stream:
            message = stream.get_final_message()
        assert message.model == "good"
        assert "secret" not in str(message)


# ---- responses that go on from others


def test_previous_response_id_leads_to_the_peer_that_keeps_it(start):
    names = ["ann", "bob", "cat"]
    gateway = start({n: speaks("responses", n) for n in names}, peers={n: only("responses") for n in names})
    for _ in range(4):
        first = gateway.client.responses.create(model="sigma-mem", input="one")
        second = gateway.client.responses.create(
            model="sigma-mem", input="two", previous_response_id=first.id
        )
        assert second.model == first.model
        assert gateway.servers[first.model].bodies[-1]["previous_response_id"] == "resp_upstream"
    with gateway.client.responses.stream(
        model="sigma-mem", input="x", previous_response_id=first.id
    ) as stream:
        third = stream.get_final_response()
    assert third.model == first.model
    unknown = "resp_000000000000000000000000--resp_upstream"
    with pytest.raises(openai.BadRequestError, match="not here"):
        gateway.client.responses.create(model="sigma-mem", input="x", previous_response_id=unknown)


def test_a_peer_that_keeps_nothing_cannot_be_gone_on_from(three):
    asked = {"model": "sigma-mem", "input": "x", "extra_body": narrowed("chat")}
    first = three.client.responses.create(**asked)
    with pytest.raises(openai.BadRequestError, match="keeps no responses"):
        three.client.responses.create(**asked, previous_response_id=first.id)
    with pytest.raises(openai.BadRequestError, match="background"):
        three.client.responses.create(**asked, background=True)


# ---- keys, headers, models, errors


def test_keys_and_headers_as_anthropics_clients_and_servers_have_them(start, tmp_path, monkeypatch):
    monkeypatch.setenv("ANN_KEY", "sk-of-ann")
    key = add_key(tmp_path / "keys.json", "team", {"default": "write"}, 0.0)
    peers = {"ann": only("messages") | {"key_env": "ANN_KEY"}}
    gateway = start({"ann": speaks("messages", "391")}, peers=peers, keys=str(tmp_path / "keys.json"))
    for given in ({"api_key": key}, {"api_key": None, "auth_token": key}):
        client = gateway.claude(**given)
        client.messages.create(
            model="sigma-mem",
            max_tokens=9,
            messages=ASK,
            extra_headers={"anthropic-beta": "some-beta", "x-other": "1"},
        )
        headers = gateway.servers["ann"].requests[-1][1]
        assert (headers["x-api-key"], headers["anthropic-beta"]) == ("sk-of-ann", "some-beta")
        assert headers["anthropic-version"] == client.default_headers["anthropic-version"]
        assert "authorization" not in headers
        assert "x-other" not in headers
    with pytest.raises(anthropic.AuthenticationError) as error:
        gateway.claude(api_key="wrong").messages.create(model="sigma-mem", max_tokens=9, messages=ASK)
    assert error.value.body["error"]["type"] == "authentication_error"


def test_tokens_are_counted_by_a_peer_that_speaks_messages(three, start):
    for model in ("sigma-mem", "messages"):
        counted = three.claude().messages.count_tokens(model=model, messages=ASK)
        assert counted.input_tokens == len(json.dumps(ASK))
    gateway = start({"ann": says("391")})
    with pytest.raises(anthropic.NotFoundError, match="counts tokens"):
        gateway.claude().messages.count_tokens(model="sigma-mem", messages=ASK)


def test_both_clients_list_the_models(three):
    names = ["sigma-mem", "sigma-mem/vote", "sigma-mem/ask", *SPOKEN]
    assert [model.id for model in three.claude().models.list()] == names
    assert [model.id for model in three.client.models.list()] == names
    assert three.claude().models.retrieve("chat").display_name == "chat"
    assert three.client.models.retrieve("sigma-mem/vote").owned_by == "sigma-mem"
    with pytest.raises(openai.NotFoundError):
        three.client.models.retrieve("gpt")


def test_an_unknown_path_says_what_exists(three):
    response = httpx2.post(f"{three.url}/v1/completions", json={})
    assert response.status_code == 404
    for path in ("/v1/chat/completions", "/v1/messages", "/v1/responses", "/v1/models"):
        assert path in response.json()["error"]["message"]


class Sum(pydantic.BaseModel):
    a: int


@pytest.mark.parametrize("spoken", SPOKEN)
def test_structured_output_in_every_protocol(start, spoken):
    gateway = start({"ann": speaks(spoken, '{"a": 7}')}, peers={"ann": only(spoken)})
    asked = {"model": "sigma-mem", "messages": ASK}
    parsed = [
        gateway.client.chat.completions.parse(**asked, response_format=Sum).choices[0].message.parsed,
        gateway.client.responses.parse(model="sigma-mem", input="x", text_format=Sum).output_parsed,
        gateway.claude().messages.parse(**asked, max_tokens=9, output_format=Sum).parsed_output,
    ]
    assert parsed == [Sum(a=7)] * 3
    for body in gateway.servers["ann"].bodies:
        assert '"json_schema"' in json.dumps(body)
        assert '"integer"' in json.dumps(body)
