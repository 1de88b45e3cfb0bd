"""Namespaces of a service."""

import asyncio
import threading

from sigma_mem.serve.config import ServerConfig
from sigma_mem.serve.memories import Memories
from sigma_mem.session.advice import FIRST_CHECK


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
