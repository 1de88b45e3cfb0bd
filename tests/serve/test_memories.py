"""Namespaces of a service."""

import asyncio
import threading

import pytest

from serve.conftest import served
from sigma_mem import SigmaMem
from sigma_mem.serve.config import RequestLimits, ServerConfig
from sigma_mem.serve.failures import RefusedError
from sigma_mem.serve.memories import Memories
from sigma_mem.session.advice import FIRST_CHECK

QUESTION = "What is 17 * 23?"


def test_no_decision_waits_for_advice(tmp_path, monkeypatch):
    looked_in = []
    advice = "sigma_mem.session.handle.advice_for"
    monkeypatch.setattr(advice, lambda *_: looked_in.append(threading.current_thread().name) or [])

    async def decide():
        memories = Memories(ServerConfig(path=str(tmp_path / "memory.db")))
        served = await memories.create("default", ["ann", "bob"], rank=1)
        for _ in range(FIRST_CHECK):
            await served.quick(lambda mem: mem.route(phi=[1.0]))
        for thread in threading.enumerate():
            if thread.name == "sigma-mem-advice":
                thread.join()
        await memories.close()

    asyncio.run(decide())
    assert looked_in == ["sigma-mem-advice"]


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("wanted", [False, True])
def test_a_memory_that_was_made_elsewhere_is_served_unless_it_keeps_texts_that_nobody_asked_for(
    tmp_path, kept, wanted
):
    path = str(tmp_path / "memory.db")
    SigmaMem(["ann", "bob"], path, encoder="hashed", keep_text=kept).close()
    if kept and not wanted:
        with pytest.raises(RefusedError, match="keep_text = true"), served(path=path):
            pass
        with served(path=path, namespace="other") as http:
            found = http.post("/v1/memory/default/route", json={"question": QUESTION})
            assert found.status_code == 409
            assert "keep_text = true" in found.json()["error"]["message"]
    else:
        with served(path=path, keep_text=wanted) as http:
            found = http.post("/v1/memory/default/route", json={"question": QUESTION})
            assert found.status_code == 200
    with SigmaMem(path=path, readonly=True) as mem:
        assert [d.question for d in mem.decisions()] == (
            [QUESTION] if kept and wanted else [None] if not kept else []
        )


def test_while_a_cancelled_long_call_still_runs_nothing_waits_for_it_on_the_event_loop(tmp_path):
    began, may_end = threading.Event(), threading.Event()

    def holds_the_lock(mem):
        began.set()
        may_end.wait(60)

    async def leave():
        memories = Memories(ServerConfig(path=str(tmp_path / "memory.db")))
        served = await memories.create("default", ["ann", "bob"], rank=1)
        call = asyncio.create_task(served.slow(holds_the_lock))
        await asyncio.to_thread(began.wait, 60)
        call.cancel()
        await asyncio.wait((call,))
        assert await served.quick(lambda mem: threading.current_thread()) is not threading.current_thread()
        may_end.set()
        while await served.quick(lambda mem: threading.current_thread()) is not threading.current_thread():
            await asyncio.sleep(0.01)
        await memories.close()

    asyncio.run(asyncio.wait_for(leave(), 60))


def test_long_calls_of_one_tenant_leave_threads_to_others(tmp_path):
    may_end = threading.Event()
    limits = RequestLimits(threads=2, waiting=3)

    async def crowd():
        memories = Memories(ServerConfig(path=str(tmp_path / "memory.db"), limits=limits))
        greedy = await memories.create("greedy", ["ann", "bob"], rank=1)
        other = await memories.create("other", ["ann", "bob"], rank=1)
        calls = [asyncio.create_task(greedy.slow(lambda mem: may_end.wait(60))) for _ in range(40)]
        await asyncio.sleep(0)
        await memories.check_store()
        assert await other.slow(lambda mem: mem.events) == 0
        refused = [call for call in calls if call.done()]
        assert len(refused) == 35
        assert all(call.exception().status == 429 for call in refused)
        may_end.set()
        await asyncio.gather(*(call for call in calls if call not in refused))
        await memories.close()

    asyncio.run(asyncio.wait_for(crowd(), 60))


def test_two_requests_at_once_do_not_both_make_one_namespace(tmp_path):
    async def race():
        memories = Memories(ServerConfig(path=str(tmp_path / "memory.db")))
        made = await asyncio.gather(
            memories.create("new", ["ann", "bob"], rank=1),
            memories.create("new", ["cid"], rank=1),
            return_exceptions=True,
        )
        await memories.close()
        return made

    assert sorted(type(found).__name__ for found in asyncio.run(race())) == ["ConflictError", "ServedMemory"]


def test_one_tenant_cannot_make_a_memory_of_gigabytes(open_service):
    peers = [f"peer-{n}" for n in range(24)]
    refused = open_service.put("/v1/memory/large", json={"peers": peers, "rank": 1024})
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "memory_too_large")
    assert open_service.get("/v1/memory/large").status_code == 404
