"""A conversation stays on its peer, unless a switch is worth what it costs."""

import itertools
import random

import httpx2
import openai
import pytest

from serve.gateway.conftest import memory_of
from serve.gateway.upstreams import fails, says, speaks
from sigma_mem.admin import report
from sigma_mem.serve.config import TopicRule, Upstream
from sigma_mem.serve.gateway.chat import CHAT
from sigma_mem.serve.gateway.conversation import Conversation, Conversations, Trail
from sigma_mem.serve.gateway.messages import MESSAGES

NAMES = ["ann", "bob", "cat", "dan"]


def four():
    return {name: says(name) for name in NAMES}


def turns_of(gateway, count, first, model="sigma-mem", **options):
    """The peers of a conversation of so many turns."""
    asked, peers, held = [{"role": "user", "content": first}], [], []
    for number in range(count):
        raw = gateway.raw(model=model, messages=asked, **options)
        answer = raw.parse()
        peers.append(answer.model)
        held.append(raw.headers.get("x-sigma-mem-held"))
        said = answer.choices[0].message.content
        asked += [{"role": "assistant", "content": said}, {"role": "user", "content": f"and {number}?"}]
    return peers, held


def test_a_conversation_stays_on_its_peer_and_header_and_explain_say_why(start):
    gateway = start(four())
    seen = set()
    for number in range(8):
        peers, (first, *later) = turns_of(gateway, 5, f"conversation {number}")
        assert len(set(peers)) == 1
        assert first is None
        assert all("would gain" in why for why in later)
        seen |= set(peers)
    assert len(seen) > 1  # new ones are explored
    mem = memory_of(gateway)
    *_, begun = mem.decisions(5)
    why = mem.explain(next(iter(mem.decisions(1))))
    assert why.note == later[-1]
    assert later[-1] in str(why)
    assert mem.explain(begun).note is None


def test_each_turn_is_an_event_of_its_own_and_two_beginnings_are_two_conversations(start):
    gateway = start(four())
    turns_of(gateway, 3, "one")
    assert memory_of(gateway).events == 3
    first = {turns_of(gateway, 1, f"{number}")[0][0] for number in range(20)}
    assert len(first) > 1


def test_all_turns_are_one_event_if_the_caller_wants_that(start):
    gateway = start(four())
    turns_of(gateway, 3, "one", extra_body={"sigma_mem": {"event": "conversation", "topic": "law"}})
    (made, *_), events = memory_of(gateway).decisions(3), memory_of(gateway).events
    assert (events, made.topics) == (1, ("law",))


def test_a_conversation_is_known_by_its_header(start):
    gateway = start(four())
    named = {"extra_headers": {"x-sigma-mem-conversation": "c-7"}}
    peers = {turns_of(gateway, 1, f"{number}", **named)[0][0] for number in range(12)}
    assert len(peers) == 1


@pytest.fixture
def breakable():
    """A behaviour that says "ann", and fails once its list holds something."""
    broken = []

    async def behave(server, body, writer):
        await (fails() if broken else says("ann"))(server, body, writer)

    behave.broken = broken
    return behave


def talk(*contents):
    roles = itertools.cycle(["user", "assistant"])
    return [{"role": role, "content": content} for role, content in zip(roles, contents, strict=False)]


def test_a_peer_that_fails_is_left_and_the_next_one_goes_on(start, breakable):
    gateway = start({"ann": breakable, "bob": says("bob")}, explore=False)
    mem = memory_of(gateway)
    for _ in range(4):
        mem.feedback(mem.route("x"), {"ann": True, "bob": False})
    assert gateway.create(model="sigma-mem", messages=talk("x")).model == "ann"
    breakable.broken.append(True)
    assert gateway.create(model="sigma-mem", messages=talk("x", "ann", "y")).model == "bob"
    breakable.broken.clear()
    assert gateway.create(model="sigma-mem", messages=talk("x", "ann", "y", "bob", "z")).model == "bob"


def test_nothing_is_tried_in_the_middle_of_a_conversation_whose_peer_is_away(start, breakable):
    gateway = start({"ann": breakable, "bob": says("bob"), "cat": says("cat")}, explore=True)
    ann = {"model": "sigma-mem", "extra_body": {"sigma_mem": {"among": ["ann"]}}}
    assert gateway.create(messages=talk("x"), **ann).model == "ann"
    breakable.broken.append(True)
    for _ in range(3):  # its circuit opens
        with pytest.raises(openai.InternalServerError):
            gateway.create(messages=talk("other"), **ann)
    answer = gateway.create(model="sigma-mem", messages=talk("x", "ann", "y"))
    assert answer.model in ("bob", "cat")
    assert memory_of(gateway).decision(answer.id).read == "calibrated-route"
    fresh = gateway.create(model="sigma-mem", messages=talk("z"))
    assert memory_of(gateway).decision(fresh.id).read == "exploring-route"


def request(*contents, protocol=CHAT):
    return protocol.read({"model": "sigma-mem", "messages": talk(*contents)}, {})


def kept(value=0.0, margin=0.05, cached=0.1):
    dear = {"input_price": 1.0, "cached_price": cached}
    prices = {"ann": dear, "bob": dear, "cheap": {}}
    upstreams = [Upstream(name, "http://127.0.0.1/v1", **price) for name, price in prices.items()]
    return Conversations(upstreams, value, margin)


@pytest.mark.parametrize(
    ("value", "tokens", "probs", "goes_on"),
    [
        (1.0, 1_000_000, {"ann": 0.5, "bob": 0.9}, "ann"),  # a gain of 0.4 for a cost of 0.9
        (3.0, 1_000_000, {"ann": 0.5, "bob": 0.9}, "bob"),  # worth 1.2
        (3.0, 2_000_000, {"ann": 0.5, "bob": 0.9}, "ann"),  # more tokens lose their cache
        (1e9, 10, {"ann": 0.5, "bob": 0.54}, "ann"),  # within the margin
        (0.0, 1000, {"ann": 0.5, "bob": 0.99}, "ann"),  # nobody said what an answer is worth
        (0.0, 1000, {"ann": 0.5, "cheap": 0.6}, "cheap"),  # better and cheaper
        (0.0, 1000, {"ann": 0.5, "cheap": 0.5}, "ann"),
        (9.0, 1000, {"ann": 0.5}, "ann"),
    ],
)
def test_a_switch_must_be_worth_its_cost(value, tokens, probs, goes_on):
    peer, held = kept(value).choose(Conversation("ann", tokens), request("x"), probs)
    assert peer == goes_on
    assert bool(held) == (goes_on == "ann")
    assert ("at most the margin of 0.05" in held) == (value == 1e9)


def test_what_a_peer_thought_holds_the_conversation():
    thought = [{"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": "y"}]
    asked = request("x", thought, "z", protocol=MESSAGES)
    peer, held = kept(1e9).choose(Conversation("ann", 1), asked, {"ann": 0.1, "bob": 0.9})
    assert (peer, held) == ("ann", "only its peer can read what it thought")


def test_the_longest_beginning_counts_and_marks_of_caching_do_not():
    known = kept()
    known.remember(Trail("default", request("a")), "r1", "ann", 10)
    known.remember(Trail("default", request("a", "b", "c")), "r2", "bob", 20)
    assert known.find(Trail("default", request("a"))) is None  # the same request again is no continuation
    assert known.find(Trail("default", request("a", "x", "y"))).peer == "ann"
    assert known.find(Trail("default", request("a", "b", "c", "d", "e"))) == Conversation("bob", 20, "r2")
    assert known.find(Trail("other", request("a", "b", "c", "d", "e"))) is None
    part = {"type": "text", "text": "a"}
    known.remember(
        Trail("default", request([part | {"cache_control": {"type": "ephemeral"}}])), "r3", "cheap", 5
    )
    assert known.find(Trail("default", request([part], "b", "c"))).peer == "cheap"


def test_what_is_remembered_is_bounded(monkeypatch):
    monkeypatch.setattr("sigma_mem.serve.gateway.conversation._MOST", 20)
    known = kept()
    for number in range(50):
        known.remember(Trail("default", request(f"{number}")), f"r{number}", "ann", None)
    found = [number for number in range(50) if known.find(Trail("default", request(f"{number}", "b", "c")))]
    assert found == list(range(40, 50))
    assert [known.peer_of("default", f"r{number}") for number in (39, 40)] == [None, "ann"]


# ---- modes


def test_in_observe_the_callers_model_serves_and_the_decision_is_recorded(start):
    gateway = start(
        {"ann": says("1"), "bob": speaks("messages", "2")},
        peers={"bob": {"protocols": ("messages",)}},
        mode="observe",
        usual="bob",
    )
    asked, mem = talk("x"), memory_of(gateway)
    for model, serves in (("sigma-mem", "bob"), ("bob", "bob"), ("ann", "ann"), ("sigma-mem/vote", "bob")):
        answer = gateway.create(model=model, messages=asked)
        decision = mem.decision(answer.id)
        assert (answer.model, decision.served or decision.peer) == (serves, serves)
    assert mem.events == 4
    with pytest.raises(openai.BadRequestError, match="would lose seed"):
        gateway.create(model="bob", messages=asked, seed=7)


def test_bypass_decides_and_records_nothing(start):
    gateway = start({"ann": says("1"), "bob": says("2")}, mode="bypass", usual="bob")
    for model, serves in (("sigma-mem", "bob"), ("ann", "ann")):
        assert gateway.create(model=model, messages=talk("x")).model == serves
    assert memory_of(gateway).events == 0


def test_a_topic_has_a_mode_of_its_own(start):
    gateway = start(
        {"ann": says("1"), "bob": says("2")},
        topics=(TopicRule("law", "bypass", "bob"), TopicRule("sums", "observe", "ann")),
    )
    mem, url = memory_of(gateway), f"{gateway.url}/v1/chat/completions"
    for topic, serves, events in (("law", "bob", 0), (["other", "sums"], "ann", 1), ("other", None, 2)):
        body = {"model": "sigma-mem", "messages": talk("x"), "sigma_mem": {"topic": topic}}
        model = httpx2.post(url, json=body).json()["model"]
        assert model == serves or serves is None
        assert mem.events == events


RATES = {("ann", "law"): 0.9, ("ann", "code"): 0.3, ("bob", "law"): 0.4, ("bob", "code"): 0.85}


def is_right(peer, topic, number):
    return random.Random(f"{peer} {topic} {number}").random() < RATES[peer, topic]


def test_the_report_in_observe_says_what_happens_once_it_is_on(start, tmp_path):
    path, peers = str(tmp_path / "memory.db"), {"ann": says("a"), "bob": says("b")}

    def asked(gateway, number, model):
        topic = ("law", "code")[number % 2]
        answer = gateway.create(
            model=model,
            messages=talk(f"question {number} of {topic}"),
            extra_body={"sigma_mem": {"topic": topic, "explore": False}},
        )
        right = is_right(answer.model, topic, number)
        said = httpx2.post(f"{gateway.url}/v1/feedback", json={"id": answer.id, "score": float(right)})
        assert said.status_code == 200
        return answer.model, right

    with start.fresh() as begin:
        gateway = begin(peers, mode="observe", path=path)
        callers = [("ann", "bob")[number // 2 % 2] for number in range(120)]
        served = [asked(gateway, number, model) for number, model in enumerate(callers)]
        assert [peer for peer, _ in served] == callers
        total, *topics = report(memory_of(gateway)).compared
    assert total.right_before.value == pytest.approx(sum(right for _, right in served) / 120)
    assert {each.topic for each in topics} == {"law", "code"}
    gateway = start(peers, path=path)
    on = [asked(gateway, number, "sigma-mem") for number in range(120, 220)]
    low, high = total.right_after.interval
    assert low <= sum(right for _, right in on) / 100 <= high
    assert total.right_before.interval[1] < sum(right for _, right in on) / 100
    moved = sum(peer != ("ann", "bob")[number // 2 % 2] for number, (peer, _) in enumerate(on, 120)) / 100
    assert moved == pytest.approx(total.elsewhere / total.requests, abs=0.1)
