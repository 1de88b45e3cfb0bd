"""Signals on recorded conversations, alone and behind a gateway."""

import json

import pytest

from serve.gateway.conftest import memory_of
from serve.gateway.upstreams import completion, says, send_json
from sigma_mem.serve.config import SIGNALS
from sigma_mem.serve.gateway.chat import CHAT
from sigma_mem.serve.gateway.conversation import FUNCTIONS, Seen

SCHEMA = {
    "type": "object",
    "properties": {"command": {"type": "string"}, "times": {"type": "integer"}, "how": {"enum": ["a", "b"]}},
    "required": ["command"],
    "additionalProperties": False,
}
TOOLS = [{"type": "function", "function": {"name": "shell", "parameters": SCHEMA}}]


def user(text):
    return {"role": "user", "content": text}


def answer(text="391"):
    return {"role": "assistant", "content": text}


def call(arguments, id="call_1", name="shell"):
    written = arguments if isinstance(arguments, str) else json.dumps(arguments)
    function = {"name": name, "arguments": written}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": id, "type": "function", "function": function}],
    }


def result(text, id="call_1"):
    return {"role": "tool", "tool_call_id": id, "content": text}


def says_of(name, *messages, again=False):
    prompt = CHAT.prompt({"model": "m", "messages": list(messages), "tools": TOOLS}, lambda what: None)
    return FUNCTIONS[name](Seen(prompt.messages, prompt.tools, again))


ASKED = user("What is 17 * 23?")
RUN = {"command": "cd app && pytest -q"}


@pytest.mark.parametrize(
    ("name", "messages", "right"),
    [
        ("rephrased", [ASKED], None),
        ("rephrased", [ASKED, answer(), user("So what is 17 times 23, is it 17 * 23?")], False),
        ("rephrased", [ASKED, answer(), user("Thanks! Now translate it into French.")], True),
        ("rephrased", [ASKED, call(RUN), result("ok")], None),
        ("regenerated", [ASKED], None),
        ("regenerated", [ASKED, answer(), user("Thanks.")], True),
        ("retried", [ASKED, answer(), user("No, that is wrong. Try again.")], False),
        ("retried", [ASKED, answer(), user("It still fails with the same error")], False),
        ("retried", [ASKED, answer(), user("Good. And 18 * 23?")], True),
        ("retried", [ASKED], None),
        ("tool_arguments", [ASKED], None),
        ("tool_arguments", [ASKED, call(RUN), result("ok")], True),
        ("tool_arguments", [ASKED, call('{"command": '), result("bad JSON")], False),
        ("tool_arguments", [ASKED, call({"times": 2}), result("command is missing")], False),
        ("tool_arguments", [ASKED, call({"command": "ls", "times": "two"}), result("?")], False),
        ("tool_arguments", [ASKED, call({"command": "ls", "how": "c"}), result("?")], False),
        ("tool_arguments", [ASKED, call({"command": "ls", "more": 1}), result("?")], False),
        ("tool_arguments", [ASKED, call(RUN, name="bash"), result("no such tool")], False),
        ("tool_loop", [ASKED], None),
        ("tool_loop", [ASKED, *[call(RUN), result("1")] * 2], True),
        ("tool_loop", [ASKED, *[call(RUN), result("1")] * 3], False),
        ("tool_loop", [ASKED, *[call(RUN), result("1")] * 2, user("And?"), call(RUN), result("1")], True),
        ("tests", [ASKED, call(RUN), result("3 passed\nexit code: 0")], True),
        ("tests", [ASKED, call(RUN), result('{"output": "1 failed", "exit_code": 1}')], False),
        ("tests", [ASKED, call(RUN), result("Process exited with code 2")], False),
        ("tests", [ASKED, call({"command": "ls"}), result("exit code: 1")], None),
        ("tests", [ASKED, call(RUN), result("3 passed")], None),
    ],
)
def test_what_a_signal_says_of_the_answer_before(name, messages, right):
    assert tuple(FUNCTIONS) == SIGNALS
    assert says_of(name, *messages) is right


def test_the_same_request_again_was_not_answered_well():
    assert says_of("regenerated", ASKED, again=True) is False


def sent(gateway, *messages, **more):
    return gateway.create(model="sigma-mem", messages=list(messages), **more)


def test_what_the_next_request_says_is_a_label_of_the_answer_before(start):
    gateway = start({"ann": says("391")}, signals=SIGNALS)
    first = sent(gateway, ASKED)
    second = sent(gateway, ASKED, answer(), user("So what is 17 * 23, please?"))
    mem = memory_of(gateway)
    assert mem.decision(second.id).labels == {}
    assert {source.name for source in mem.sources() if source.lines} == {"signal/rephrased"}
    assert mem.decision(first.id).labels == {"ann": -1.0}  # the others noticed nothing, and say nothing
    third = sent(gateway, ASKED, answer(), user("So what is 17 * 23, please?"), answer(), user("Thanks."))
    assert mem.decision(second.id).labels == {"ann": 1.0}
    assert mem.decision(third.id).labels == {}
    found = {source.name for source in mem.sources() if source.lines}
    assert found == {"signal/rephrased", "signal/regenerated", "signal/retried"}


async def runs_tests_twice(server, body, writer):
    """A model that calls its tests, and once more after their first result."""
    done = sum(message["role"] == "tool" for message in body["messages"])
    calls = call(RUN, id=f"call_{done}")["tool_calls"]
    send_json(writer, completion("done") if done == 2 else completion(None, tool_calls=calls))


def with_result(asked, response, text):
    """The conversation after an answer's tool call was run."""
    said = response.choices[0].message
    return [*asked, said.model_dump(exclude_none=True), result(text, id=said.tool_calls[0].id)]


def test_a_run_of_tests_labels_the_peer_that_called_it(start):
    gateway = start({"ann": runs_tests_twice}, signals=("tests",))
    first = sent(gateway, ASKED, tools=TOOLS)
    asked = with_result([ASKED], first, "exit code: 1")
    second = sent(gateway, *asked, tools=TOOLS)
    mem = memory_of(gateway)
    assert mem.decision(first.id).labels == {"ann": -1.0}
    sent(gateway, *with_result(asked, second, "exit code: 0"), tools=TOOLS)  # run again, and they pass
    assert mem.decision(first.id).labels == {"ann": 1.0}


@pytest.mark.parametrize("order", ["bb", "aba", "abab", "bab", "bbaa"])
def test_requests_may_come_again_and_in_any_order(start, order):
    """What was said of the run and of an answer is the same as after one request of each in their order."""
    gateway = start({"ann": runs_tests_twice}, signals=("tests", "retried"))
    first = sent(gateway, ASKED, tools=TOOLS)
    asked = with_result([ASKED], first, "exit code: 1")
    second = sent(gateway, *asked, tools=TOOLS)
    requests = {"a": asked, "b": with_result(asked, second, "exit code: 0")}
    for name in order:
        sent(gateway, *requests[name], tools=TOOLS)
    mem = memory_of(gateway)
    assert mem.decision(first.id).labels == {"ann": 1.0}
    said = {"a": user("Thanks."), "b": user("That is wrong.")}  # two branches of one conversation
    other = sent(gateway, user("What is 2 + 2?"))
    for name in order:
        sent(gateway, user("What is 2 + 2?"), answer("5"), said[name])
    assert mem.decision(other.id).labels == {"ann": -1.0}


def test_what_a_signal_is_worth_is_learned_from_labels(start):
    found = []
    for every in (2, 3):  # users complain about the wrong answers, or about any
        gateway = start({"ann": says("391")}, signals=("retried",))
        mem = memory_of(gateway)
        for number in range(12):
            asked = user(f"What is {number} * 23?")
            first = sent(gateway, asked)
            sent(gateway, asked, answer(), user("Thanks." if number % every else "That is wrong."))
            mem.feedback(first.id, {"ann": bool(number % 2)})
        found += (source for source in mem.sources() if source.name == "signal/retried")
    honest, empty = found
    assert min(honest.compared, empty.compared) > 11.0
    assert honest.agreement > 0.4 > 0.1 > empty.agreement
    assert honest.weight > empty.weight + 0.1


def test_none_is_on_unless_named(start):
    gateway = start({"ann": says("391")})
    sent(gateway, ASKED)
    sent(gateway, ASKED, answer(), user("No, that is wrong. What is 17 * 23?"))
    assert not any(source.lines for source in memory_of(gateway).sources())


def test_a_request_that_no_signal_can_read_is_answered(start):
    gateway = start({"ann": says("391")}, signals=SIGNALS)
    sent(gateway, ASKED)
    for odd in ([{"kind": "text"}], [7], {"a": 1}):
        assert sent(gateway, ASKED, answer(), {"role": "user", "content": odd}).model == "ann"
    assert sent(gateway, ASKED, answer(), {"content": "whose?"}).model == "ann"


def test_signals_do_not_stop_a_gateway_whose_store_is_away(start, tmp_path):
    file, away = tmp_path / "memory.db", tmp_path / "away.db"
    gateway = start({"ann": says("391")}, signals=SIGNALS, path=str(file))
    sent(gateway, ASKED)
    file.rename(away)
    try:
        for _ in range(2):  # the first one finds out
            raw = gateway.raw(
                model="sigma-mem", messages=[ASKED, answer(), user("That is wrong, try again.")]
            )
            assert raw.headers["x-sigma-mem-unrecorded"] == "queued"
    finally:
        away.rename(file)
