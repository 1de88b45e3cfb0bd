"""Namespaces of a service."""

import asyncio
import threading

import pytest

from serve.conftest import served
from sigma_mem import SigmaMem
from sigma_mem.serve.config import ServerConfig
from sigma_mem.serve.memories import Memories
from sigma_mem.session.advice import FIRST_CHECK

QUESTION = "What is 17 * 23?"


def test_no_decision_waits_for_advice(tmp_path, monkeypatch):
    looked_in = []
    advice = "sigma_mem.session.methods.held.advice_for"
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
    with served(path=path, keep_text=wanted) as http:
        found = http.post("/v1/memory/default/route", json={"question": QUESTION})
        if kept and not wanted:
            assert found.status_code == 409
            assert "keep_text = true" in found.json()["error"]["message"]
        else:
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
