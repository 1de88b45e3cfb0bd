"""The parts of the gateway that need no server."""

import asyncio
import dataclasses
import json

import aiohttp
import hypothesis.strategies as st
import pytest
from hypothesis import given

from serve.gateway.upstreams import says
from sigma_mem.serve.config import Upstream
from sigma_mem.serve.gateway.protocol import Stamp, Usage, marked, without_marks
from sigma_mem.serve.gateway.upstream import (
    CHAT,
    MESSAGES,
    RESPONSES,
    Calls,
    Circuit,
    EventParser,
    Pool,
    price_of,
    words_in,
)

ID = "chatcmpl-5f2b8a9c0d1e2f3a4b5c6d7e"


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


def test_a_circuit_opens_pauses_and_lets_one_trial_through():
    clock = Clock()
    circuit = Circuit(clock)
    for _ in range(2):
        circuit.failed()
    assert circuit.open_until <= clock()
    circuit.failed()
    assert circuit.open_until > clock()
    clock.now += 5.0
    assert circuit.open_until <= clock()
    circuit.begin()  # the trial
    assert circuit.open_until > clock()
    circuit.failed()
    clock.now += 9.9
    assert circuit.open_until > clock()  # twice as long
    clock.now += 0.1
    circuit.begin()
    circuit.succeeded()
    assert circuit.open_until <= clock()
    circuit.failed()
    assert circuit.open_until <= clock()  # it counts from the start again


@given(st.integers(3, 10_000), st.floats(allow_nan=True, allow_infinity=True))
def test_no_pause_is_longer_than_five_minutes(failures, asked):
    clock = Clock()
    circuit = Circuit(clock)
    for _ in range(min(failures, 40)):
        circuit.failed()
    circuit.limited(asked)
    clock.now += 300.0
    assert circuit.open_until <= clock()


def test_prices_are_of_a_million_tokens_and_nonsense_is_free():
    peer = Upstream(name="a", base_url="http://127.0.0.1/v1", input_price=2.0, output_price=10.0)
    assert price_of(peer, Usage(1000, 100)) == pytest.approx(0.003)
    cheaper = dataclasses.replace(peer, cached_price=0.5)
    assert price_of(cheaper, Usage(1000, 100, cached=800)) == pytest.approx(0.0018)
    for nonsense in (None, 3, {"prompt_tokens": "many", "completion_tokens": -4}, {"prompt_tokens": 1e300}):
        usage = CHAT.usage({"usage": nonsense})
        assert usage is None or price_of(peer, usage) == 0.0


def test_what_an_answer_says():
    def of(**message):
        return CHAT.answer({"choices": [{"message": message}]})

    assert of(content="391") == "391"
    assert of(content=[{"type": "text", "text": "391"}]) == "391"
    for nothing in ({}, {"content": None}, {"content": " "}, {"content": 3}, {"tool_calls": []}):
        assert of(**nothing) is None
    assert CHAT.answer({"choices": []}) is None
    assert of(tool_calls=[3, {"function": {"name": "f", "arguments": "{"}}]).canon == '[["",""],["f","{"]]'
    one, other = (
        {"function": {"name": "f", "arguments": raw}} for raw in ('{"a":1,"b":2}', '{"b": 2, "a": 1}')
    )
    assert of(tool_calls=[one]) == of(tool_calls=[other])


@given(st.text(min_size=1), st.sampled_from(["chatcmpl-", "msg_", "resp_"]))
def test_marks_come_off_again(own, prefix):
    response = f"{prefix}5f2b8a9c0d1e2f3a4b5c6d7e"
    call = marked({"type": "tool_use", "id": own}, response)
    assert call["id"] == f"{own}--{response}"
    result = {"type": "tool_result", "tool_use_id": call["id"]}
    for last in (
        {"role": "user", "content": [result]},
        {"role": "tool", "tool_call_id": call["id"]},
        {"type": "function_call_output", "call_id": call["id"]},
    ):
        sent, answered = without_marks([{"role": "user"}, last])
        assert answered == response
        assert response not in json.dumps(sent)
        assert without_marks([last, {"role": "user"}])[1] is None  # only the last turn counts
    assert without_marks([{"type": "function_call", "call_id": call["id"]}])[1] is None
    said = {"role": "assistant", "tool_calls": [{"id": call["id"], "function": {}}]}
    assert without_marks([said])[0][0]["tool_calls"][0]["id"] == own


anything = st.recursive(
    st.none() | st.sampled_from(["tool", "7", f"7--{ID}"]),
    lambda v: (
        st.lists(v, max_size=2)
        | st.dictionaries(st.sampled_from(["role", "tool_call_id", "tool_calls", "content", "type"]), v)
    ),
    max_leaves=5,
)


@given(st.lists(anything, max_size=3))
def test_messages_of_any_shape_are_looked_through(items):
    assert len(without_marks(items)[0]) == len(items)
    for choices in (items, [{"message": item} for item in items]):
        CHAT.stamped({"choices": choices}, Stamp(ID, "ann"))
    MESSAGES.stamped({"content": items}, Stamp(ID, "ann"))
    RESPONSES.stamped({"id": "resp_1", "output": items}, Stamp(ID, "ann"))


@given(st.lists(st.text(st.characters(exclude_characters="\r\n", codec="utf-8"))), st.data())
def test_events_are_the_same_however_the_bytes_are_cut(texts, data):
    raw = b"".join(f": c\nevent: x\ndata: {text}\r\n\r\n".encode() for text in texts)
    parser, found, rest = EventParser(), [], raw
    while rest:
        cut = data.draw(st.integers(1, len(rest)))
        found += parser.feed(rest[:cut])
        rest = rest[cut:]
    assert found == texts


def test_an_event_without_end_is_refused():
    parser = EventParser()
    assert parser.feed(b"data: " + b"x" * 4_000_000) == []
    with pytest.raises(ValueError, match="more than"):
        parser.feed(b"x" * 200_000)


@pytest.mark.parametrize("host", ["169.254.169.254", "[::ffff:169.254.169.254]", "[fe80::1]"])
def test_no_connection_is_made_to_a_link_local_address(host):
    """Whatever its name is: a name of the configuration may come to mean another address."""

    async def call():
        pool = Pool((), lambda peer, outcome: None, lambda peer, cost: None)
        try:
            async with pool._session().get(f"http://{host}/latest"):
                pass
        finally:
            await pool.close()

    with pytest.raises(aiohttp.ClientConnectorError, match="link-local"):
        asyncio.run(asyncio.wait_for(call(), 20))


def test_refusals_keep_what_the_upstream_said_unless_it_quotes_what_we_sent():
    def said(text):
        return words_in(
            json.dumps({"error": {"message": text, "debug": "secret"}}).encode(), ["sk-1", "host:8"]
        )

    assert said("too long:\n 9 tokens") == "too long: 9 tokens"
    assert words_in(b'{"detail": "no such field"}', []) == "no such field"
    for quoting in ("got sk-1", "at host:8", "Authorization: x", "headers: {'x-api-key': 1}", "see http://h"):
        assert said(quoting) == ""
    for nothing in (b"<html>", b"[]", b"{}", b'{"error": 3}', b'{"detail": [1]}'):
        assert words_in(nothing, []) == ""
    assert len(said("long " * 1000)) == 500


REMINDER = "<system-reminder>\nToday is Monday.\n</system-reminder>\n\n"
AGENTS = "# AGENTS.md instructions for /srv/app\n\n<INSTRUCTIONS>\nUse pytest.\n</INSTRUCTIONS>"


@pytest.mark.parametrize(
    ("texts", "question"),
    [
        ([REMINDER, "Count the lines."], "Count the lines."),
        ([AGENTS, "<environment_context>\n <cwd>/srv</cwd></environment_context>", "Fix it."], "Fix it."),
        (["What is <INSTRUCTIONS> in </b>?"], "What is <INSTRUCTIONS> in </b>?"),
        ([REMINDER], REMINDER.strip()),
    ],
)
def test_the_question_is_what_the_user_wrote_and_not_what_a_coding_agent_adds(texts, question):
    content = [{"type": "text", "text": text} for text in texts]
    body = {"model": "sigma-mem", "messages": [{"role": "user", "content": content}]}
    assert MESSAGES.read(body, {}).question() == question


def test_other_requests_have_their_turn_between_translations():
    names, ticks = ["ann", "bob", "cat"], 0
    upstreams = [Upstream(name=name, base_url="http://127.0.0.1/v1") for name in names]
    request = MESSAGES.read({"model": "sigma-mem", "messages": [{"role": "user", "content": "?"}]}, {})

    async def others():
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    async def run():
        pool = Pool(upstreams, lambda *_: None, lambda *_: None)
        meanwhile = asyncio.create_task(others())
        found = await Calls(request, pool, 9.0, lambda *_: None).able(names)
        meanwhile.cancel()
        return found

    assert asyncio.run(run()) == names
    assert ticks >= len(names)


def test_what_the_first_question_needs_is_loaded_before_it_comes(start):
    """So that it holds up nobody, whatever its language is."""
    from sigma_mem.encode import glossary

    glossary._tables.cache_clear()
    start({"ann": says("391")})
    assert glossary._tables.cache_info().currsize == 1
