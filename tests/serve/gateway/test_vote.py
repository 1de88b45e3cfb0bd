"""``model="sigma-mem/vote"``, which asks everyone, and ``"sigma-mem/ask"``, which asks as many as needed."""

import asyncio
import json
import time

import httpx2
import openai
import pytest

from serve.gateway.conftest import ASK, ask, memory_of
from serve.gateway.upstreams import OK, FakeUpstream, breaks_off, fails, hangs, says, wait_until
from sigma_mem.serve.config import JudgeSettings

VOTE, PANEL = "sigma-mem/vote", "sigma-mem/ask"


def events_of(gateway, **body):
    """The lines of a streamed vote, with the seconds at which they came."""
    began = time.monotonic()
    asked = {"model": VOTE, "messages": ASK, "stream": True, **body}
    with httpx2.stream("POST", f"{gateway.url}/v1/chat/completions", json=asked, timeout=30) as response:
        assert response.status_code == 200
        return response.headers, [(time.monotonic() - began, line) for line in response.iter_lines() if line]


def test_equal_answers_win_and_usage_and_cost_are_summed(start):
    priced = {name: {"input_price": 1.0, "output_price": 2.0} for name in ("ann", "bob", "cat")}
    gateway = start({"ann": says("381"), "bob": says("The answer is 391."), "cat": says("391")}, peers=priced)
    raw = gateway.raw(model=VOTE, messages=ASK)
    answer = raw.parse()
    assert answer.model in ("bob", "cat")
    assert answer.usage.total_tokens == 45
    assert answer.usage.prompt_tokens_details.cached_tokens == 3
    assert raw.headers["x-sigma-mem-attempts"] == "3"
    assert float(raw.headers["x-sigma-mem-cost"]) == pytest.approx(3 * (10 * 1.0 + 5 * 2.0) / 1e6)
    mem = memory_of(gateway)
    wait_until(lambda: mem.spent().total == pytest.approx(float(raw.headers["x-sigma-mem-cost"])))
    decision = mem.decision(answer.id)
    assert decision.served == answer.model
    assert decision.read == "calibrated-vote"
    assert decision.canons["bob"] == decision.canons["cat"] != decision.canons["ann"]


def test_a_panel_is_those_that_are_named(start):
    gateway = start({"ann": says("381"), "bob": says("391"), "cat": says("391")})
    answer = ask(gateway, VOTE, among=["bob", "cat"])
    assert answer.sigma_mem["attempts"] == 2
    assert gateway.servers["ann"].requests == []


def test_a_vote_goes_on_with_whoever_answered(start):
    behaviours = {"ann": fails(), "bob": says("391"), "cat": hangs, "dan": breaks_off}
    gateway = start(behaviours, peers={"cat": {"timeout": 0.3}})
    answer = ask(gateway, VOTE)
    assert answer.model == "bob"
    assert answer.sigma_mem["failed"] == {
        "ann": "answered 500",
        "cat": "took too long",
        "dan": "could not be reached, or broke off",
    }
    assert list(memory_of(gateway).decision(answer.id).canons) == ["bob"]


def test_where_no_answer_can_be_read_the_most_competent_peer_serves(start):
    gateway = start({"ann": says(""), "bob": says(" ")})
    mem = memory_of(gateway)
    for _ in range(4):
        mem.feedback(mem.route(ASK), {"ann": False, "bob": True})
    answer = ask(gateway, VOTE)
    decision = mem.decision(answer.id)
    assert (decision.peer, decision.served, answer.model) == (None, "bob", "bob")


def test_a_streamed_vote_is_the_winner_in_chunks(start):
    gateway = start({"ann": says("391"), "bob": says("391")})
    chunks = list(
        gateway.create(model=VOTE, messages=ASK, stream=True, stream_options={"include_usage": True})
    )
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == "391"
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == "stop"
    assert chunks[-1].usage.total_tokens == 30
    (id,) = {c.id for c in chunks}
    made = memory_of(gateway).decision(id)
    assert (made.peer, made.id) == (chunks[0].model, chunks[0].sigma_mem["decision"])
    assert all(
        "stream" not in body and "stream_options" not in body for body in gateway.servers["ann"].bodies
    )


def test_comments_come_while_a_vote_waits(start, monkeypatch):
    monkeypatch.setattr("sigma_mem.serve.gateway.policy._EVERY", 0.1)
    gateway = start({"ann": says("391", seconds=0.6)})
    headers, lines = events_of(gateway)
    assert headers["content-type"].startswith("text/event-stream")
    comments = [line for _, line in lines if line.startswith(":")]
    assert len(comments) >= 2
    assert lines[0][1].startswith(":")
    assert lines[0][0] < 0.6
    assert lines[-1][1] == "data: [DONE]"


def test_a_vote_that_fails_after_its_first_comment_ends_in_an_error_event(start, monkeypatch):
    monkeypatch.setattr("sigma_mem.serve.gateway.policy._EVERY", 0.1)
    gateway = start({"ann": hangs}, peers={"ann": {"timeout": 0.4}})
    with pytest.raises(openai.APIError, match="no upstream answered"):
        list(gateway.create(model=VOTE, messages=ASK, stream=True))


def test_a_client_that_leaves_ends_the_calls_of_a_vote(start, monkeypatch):
    monkeypatch.setattr("sigma_mem.serve.gateway.policy._EVERY", 0.1)

    async def dawdles(server, body, writer):
        writer.write(f"{OK}transfer-encoding: chunked\r\n\r\n".encode())
        while True:
            writer.write(b"1\r\n \r\n")
            await writer.drain()
            await asyncio.sleep(0.02)

    gateway = start({"ann": dawdles})
    body = {"model": VOTE, "messages": ASK, "stream": True}
    with httpx2.stream("POST", f"{gateway.url}/v1/chat/completions", json=body) as response:
        assert next(response.iter_lines()).startswith(":")
    wait_until(lambda: gateway.servers["ann"].closed)


def test_judges_are_asked_if_their_word_may_change_the_vote(start):
    sees = FakeUpstream(judges("391"))
    judge = JudgeSettings("seer", sees.url, timeout=5.0)
    broken = JudgeSettings("broken", "http://127.0.0.1:9/v1", timeout=1.0)
    gateway = start({"ann": says("381"), "bob": says("391")}, judges=(judge, broken), keep_text=True)
    memory = memory_of(gateway)
    first = memory.decision(ask(gateway, VOTE).id)
    assert first.verdicts["seer"]["bob"] > first.verdicts["seer"]["ann"]
    assert first.details["judges"]["broken"]["failures"]
    assert "What is 17 * 23?" in sees.bodies[0]["messages"][-1]["content"]
    for _ in range(30):  # labels say who is right here: nobody needs to ask
        answer = ask(gateway, VOTE)
        memory.feedback(answer.id, {"ann": False, "bob": True})
    assert memory.decision(answer.id).verdicts == {}
    assert len(sees.bodies) == 2  # the same question and answers are not asked about again
    sees.stop()


def test_what_judges_cost_is_spent_and_max_cost_holds_for_them_too(start):
    sees = FakeUpstream(judges("391", usage={"prompt_tokens": 100, "completion_tokens": 1}))
    judge = JudgeSettings("seer", sees.url, timeout=5.0, input_price=1e4)  # 1 an answer
    gateway = start({"ann": says("381"), "bob": says("391")}, judges=(judge,))
    assert ask(gateway, VOTE, max_cost=1.0).sigma_mem["cost"] == 0.0
    assert sees.bodies == []
    assert ask(gateway, VOTE).sigma_mem["cost"] == pytest.approx(2.0)
    assert memory_of(gateway).spent().by_peer == {"judge seer": pytest.approx(2.0)}
    sees.stop()


def judges(right, usage=None):
    """A judge that says Yes of answers with this text."""

    async def behave(server, body, writer):
        word = "Yes" if right in body["messages"][-1]["content"].split("Proposed answer:")[1] else "No"
        data = json.dumps({"choices": [{"message": {"content": word}}], "usage": usage}).encode()
        writer.write(f"{OK}content-length: {len(data)}\r\n\r\n".encode() + data)

    return behave


# ---- panels


def calls(gateway):
    return sum(len(server.requests) for server in gateway.servers.values())


def test_it_stops_once_the_rest_would_hardly_change_the_answer(start):
    gateway = start({name: says("391") for name in ("ann", "bob", "cat", "dan", "eve")}, explore=False)
    answer = ask(gateway, PANEL)
    assert answer.choices[0].message.content == "391"
    assert answer.sigma_mem["attempts"] == calls(gateway) < 5
    assert answer.usage.total_tokens == 15 * calls(gateway)
    decision = memory_of(gateway).decision(answer.id)
    assert len(decision.canons) == calls(gateway)
    assert memory_of(gateway).events == 1
    assert answer.sigma_mem["decision"] == decision.id


def test_one_trusted_peer_is_enough_and_feedback_labels_all_that_said_it(start):
    gateway = start({"ann": says("391"), "bob": says("381"), "cat": says("391")}, explore=False)
    mem = memory_of(gateway)
    for _ in range(30):
        mem.feedback(mem.route(ASK), {"ann": True, "bob": False, "cat": False})
    answer = ask(gateway, PANEL)
    assert (answer.model, answer.sigma_mem["attempts"]) == ("ann", 1)
    gateway.client.post("/feedback", cast_to=object, body={"id": answer.id, "score": 1.0})
    assert mem.decision(answer.id).labels == {"ann": 1.0}


def test_peers_that_fail_are_passed_over(start):
    gateway = start({"ann": fails(), "bob": says("391"), "cat": breaks_off}, explore=False)
    answer = ask(gateway, PANEL)
    assert answer.model == "bob"
    assert set(answer.sigma_mem["failed"]) <= {"ann", "cat"}
    assert ask(gateway, PANEL, among=["bob"]).sigma_mem["attempts"] == 1


def test_it_streams_like_a_vote(start):
    gateway = start({"ann": says("391"), "bob": says("391")})
    chunks = list(gateway.create(model=PANEL, messages=ASK, stream=True))
    assert "".join(c.choices[0].delta.content or "" for c in chunks) == "391"
    (id,) = {c.id for c in chunks}
    assert memory_of(gateway).decision(id).peer == chunks[0].model
