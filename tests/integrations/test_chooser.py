"""What all adapters share, in this process and over a service."""

import asyncio

import pytest
from starlette.testclient import TestClient

from sigma_mem import Client, SigmaMem
from sigma_mem.errors import InputError
from sigma_mem.integrations.chooser import Chooser, failures
from sigma_mem.serve.app import create_app
from sigma_mem.serve.config import ServerConfig

POOL = ["ann", "bob"]


@pytest.fixture(params=["here", "served"])
def memory(request):
    if request.param == "here":
        with SigmaMem(POOL, encoder="hashed", seed=1) as mem:
            yield mem
        return
    with TestClient(create_app(ServerConfig(log="off")), base_url="http://localhost") as http:
        assert http.put("/v1/memory/default", json={"peers": POOL, "encoder": "hashed"}).is_success
        yield Client("http://localhost", http=http)


def test_a_ref_stays_on_its_peer_and_is_one_event(memory):
    chooser = Chooser(memory)
    first = chooser.choose("What is 2 + 2?", POOL, ref="run-1")
    assert all(chooser.choose("What is 2 + 2?", POOL, ref="run-1") == first for _ in range(5))
    assert Chooser(memory).choose("What is 2 + 2?", POOL, ref="run-1").ref == "run-1"  # another worker
    assert memory.events == 1


def test_an_event_that_another_worker_named_by_its_id_goes_on(memory):
    ref = Chooser(memory).choose("What is 2 + 2?", POOL).ref
    assert Chooser(memory).choose("What is 2 + 2?", POOL, ref=ref).ref == ref
    assert memory.events == 1


def test_a_peer_that_failed_rests_and_comes_back(memory):
    now = [0.0]
    chooser = Chooser(memory, explore=False, rest=10.0, clock=lambda: now[0])
    choice = chooser.choose("What is 2 + 2?", POOL, ref="run-1")
    other = chooser.pass_over(choice)
    assert {choice.peer, other.peer} == set(POOL)
    assert memory.decision("run-1").served == other.peer
    assert chooser.choose("What is 2 + 2?", POOL, ref="run-1") == other
    assert [chooser.choose(f"What is {n} + 2?", POOL).peer for n in range(4)] == [other.peer] * 4
    assert chooser.pass_over(other) is None
    assert chooser.choose("What is 3 + 3?", POOL).peer in POOL  # all rest: better one of them than none
    now[0] = 11.0
    assert chooser.choose("What is 4 + 4?", POOL).peer == choice.peer
    assert memory.decision("run-1").labels == {}


def test_feedback_is_a_bool_a_score_or_labels_and_comes_once(memory):
    chooser = Chooser(memory, explore=False)
    for ref, right, c in (("a", True, 1.0), ("b", False, -1.0), ("c", 0.75, 0.5)):
        peer = chooser.choose("What is 2 + 2?", POOL, ref=ref).peer
        for _ in range(2):
            assert chooser.feedback(ref, right, id=f"id-{ref}").labels == {peer: c}
        assert memory.decision(ref).labels == {peer: c}
    chooser.choose("What is 2 + 2?", POOL, ref="d")
    assert chooser.feedback("d", {"ann": True, "bob": False}).labels == {"ann": 1.0, "bob": -1.0}


@pytest.mark.parametrize("question", ["", [], [{"role": "user", "content": [{"type": "image_url"}]}]])
def test_a_question_without_text_is_answered_all_the_same(memory, question):
    assert Chooser(memory).choose(question, POOL).peer in POOL


def test_an_event_has_several_names(memory):
    chooser = Chooser(memory)
    choice = chooser.choose("What is 2 + 2?", POOL, ref="run-1")
    chooser.alias(choice, "resp-1")
    chooser.feedback("resp-1", True)
    assert memory.decision("run-1").labels == {choice.peer: 1.0}
    assert memory.events == 1
    other = chooser.choose("What is 2 + 2?", POOL, ref="run-2")
    chooser.alias(other, "resp-1")  # the same response again, from a cache
    assert memory.decision("resp-1").event == memory.decision("run-1").event


def test_coroutines_may_use_it(memory):
    chooser = Chooser(memory)

    async def work():
        choice = await chooser.later(chooser.choose, "What is 2 + 2?", POOL, ref="run-1")
        await chooser.later(chooser.feedback, "run-1", True)
        return choice

    choice = asyncio.run(work())
    assert memory.decision("run-1").labels == {choice.peer: 1.0}


def test_what_is_no_memory_and_who_is_no_peer_is_refused(memory):
    with pytest.raises(InputError, match="expected a SigmaMem, a Client or a service's URL"):
        Chooser(None)
    with pytest.raises(InputError, match="expected peers of this memory"):
        Chooser(memory).choose("What is 2 + 2?", ["carl"])


def test_only_a_bounded_number_of_choices_is_remembered(monkeypatch):
    monkeypatch.setattr("sigma_mem.integrations.chooser._MOST", 3)
    with SigmaMem(POOL, encoder="hashed", seed=1) as mem:
        chooser = Chooser(mem)
        for number in range(5):
            chooser.choose("What is 2 + 2?", POOL, ref=f"run-{number}")
        assert len(chooser._made) == 3


def test_failures_of_libraries_that_are_loaded_count():
    import httpx2

    assert issubclass(httpx2.ConnectError, failures())
    assert not issubclass(ValueError, failures())
