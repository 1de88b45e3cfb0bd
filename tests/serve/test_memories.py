"""Namespaces of a service, and memories that come and leave over HTTP."""

import asyncio
import gzip
import hashlib
import json
import tempfile
import threading
from pathlib import Path

import pytest

from serve.conftest import served
from sigma_mem import SigmaMem
from sigma_mem.admin import export
from sigma_mem.admin.transfer import restore_ledger
from sigma_mem.errors import InputError
from sigma_mem.serve.config import RequestLimits, ServerConfig, Upstream
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


def test_decisions_of_a_large_pool_leave_the_event_loop_to_others(tmp_path):
    async def where(peers):
        memories = Memories(ServerConfig(path=str(tmp_path / f"{peers}.db")))
        served = await memories.create("default", [f"p{n}" for n in range(peers)], rank=1)
        found = [
            await run(lambda mem: threading.current_thread()) for run in (served.quick, served.from_state)
        ]
        await memories.close()
        return {thread is threading.current_thread() for thread in found}

    assert asyncio.run(where(12)) == {True}
    assert asyncio.run(where(13)) == {False}


@pytest.mark.parametrize(("upstreams", "kept"), [((), 0), ((Upstream("p", "http://localhost/v1"),), 15)])
def test_lines_that_a_gateway_may_have_to_write_again_are_few_bytes(tmp_path, upstreams, kept):
    async def route():
        config = ServerConfig(path=str(tmp_path / "memory.db"), keep_text=True, upstreams=upstreams)
        memories = Memories(config)
        served = await memories.create("default", ["p", "q"], rank=1)
        made = [await served.quick(lambda mem: mem.route(1_000_000 * "x", phi=[1.0])) for _ in range(20)]
        await memories.close()
        return sum(bool(served.mem.newest_lines(decision.event)) for decision in made)

    assert asyncio.run(route()) == kept


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


def test_a_pool_does_not_grow_beyond_what_one_tenant_may_have():
    with served(limits=RequestLimits(state_bytes=3 * 32 * 16**2)) as http:
        assert http.put("/v1/memory/a", json={"peers": ["p", "q"], "rank": 16}).is_success
        assert http.post("/v1/memory/a/peers", json={"peer": "r"}).is_success
        refused = http.post("/v1/memory/a/peers", json={"peer": "s"})
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "memory_too_large")
        assert http.get("/v1/memory/a").json()["peers"] == ["p", "q", "r"]


@pytest.fixture
def exported(tmp_path):
    mem = SigmaMem(["a", "b"], encoder="hashed")
    mem.feedback(mem.vote("PRIVATE WORDS", {"a": "1", "b": "2"}), {"a": True})
    export(mem, tmp_path / "e.jsonl")
    return (tmp_path / "e.jsonl").read_bytes()


def test_a_restore_that_is_refused_writes_nothing(exported, tmp_path):
    """restore_refused_but_written: texts never reach a service that keeps none, and the name stays free."""
    path = tmp_path / "memory.db"
    with served(path=str(path)) as http:
        for _ in range(2):
            sent = http.post("/v1/memory/T/restore", content=exported)
            assert (sent.status_code, sent.json()["error"]["code"]) == (409, "conflict")
        assert http.get("/v1/memory/T").status_code == 404
        assert http.put("/v1/memory/T", json={"peers": ["a", "b"], "encoder": "hashed"}).is_success
        http.context.memories.store.flush()
        assert b"PRIVATE WORDS" not in b"".join(file.read_bytes() for file in tmp_path.glob("memory.db*"))


def test_a_restore_makes_no_more_namespaces_than_the_service_allows(exported):
    with served(keep_text=True, limits=RequestLimits(namespaces=1)) as http:
        assert http.post("/v1/memory/one/restore", content=exported).is_success
        sent = http.post("/v1/memory/two/restore", content=exported)
        assert (sent.status_code, sent.json()["error"]["code"]) == (409, "too_many_namespaces")
        assert http.get("/v1/memory").json()["namespaces"] == ["one"]


def test_restores_of_one_tenant_run_one_by_one_and_hold_up_no_other_call(exported, monkeypatch):
    began, may_end = threading.Event(), threading.Event()

    def slowly(records, store, namespace):
        began.set()
        may_end.wait(60)
        restore_ledger(records, store, namespace)

    monkeypatch.setattr("sigma_mem.serve.memories.restore_ledger", slowly)

    async def restore():
        memories = Memories(ServerConfig(keep_text=True))
        first = asyncio.create_task(memories.restore("T", exported))
        await asyncio.to_thread(began.wait, 60)
        for _ in range(40):
            with pytest.raises(RefusedError, match="running already"):
                await memories.restore("T", exported)
        assert (await memories.create("other", ["ann"], rank=1)).mem.peers == ("ann",)
        may_end.set()
        assert (await first).mem.events == 1
        with pytest.raises(InputError, match="holds a memory already"):
            await memories.restore("T", exported)
        await memories.close()

    asyncio.run(asyncio.wait_for(restore(), 60))


def test_a_body_that_unpacks_to_much_more_is_refused(exported):
    with served(keep_text=True, limits=RequestLimits(body_bytes=50_000)) as http:
        bomb = gzip.compress(exported + bytes(900_000))
        assert http.post("/v1/memory/T/restore", content=bomb).status_code == 413
        assert http.post("/v1/memory/T/restore", content=gzip.compress(exported)).is_success


@pytest.mark.parametrize(("rank", "status"), [(16, 200), (1 << 14, 400)])
def test_a_small_file_cannot_make_a_large_memory(tmp_path, rank, status):
    """restore_small_file_large_memory: rank and peers are bounded before any matrix is made."""
    export(SigmaMem([f"p{n}" for n in range(8)], rank=8, keep_text=False), tmp_path / "e.jsonl")
    head, line, _ = (tmp_path / "e.jsonl").read_text().splitlines()
    opening = json.loads(line)
    opening["body"]["rank"] = rank
    body = f"{head}\n{json.dumps(opening, separators=(',', ':'))}\n".encode()
    end = {"lines": 1, "sha256": hashlib.sha256(body).hexdigest()}
    with served() as http:
        sent = http.post("/v1/memory/T/restore", content=body + json.dumps(end).encode() + b"\n")
        assert sent.status_code == status, sent.text
        if status == 400:
            assert sent.json()["error"]["code"] == "memory_too_large"


@pytest.mark.parametrize("what", ["export", "backup"])
def test_what_is_sent_has_no_name_that_could_outlive_it(exported, tmp_path, monkeypatch, what):
    """exports_left_behind: the file is gone from its folder before the first byte is sent."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    seen = []
    with served(keep_text=True, path=str(tmp_path / "memory.db")) as http:
        assert http.post("/v1/memory/T/restore", content=exported).is_success
        with http.stream("GET", f"/v1/memory/T/{what}") as sent:
            seen = [str(file) for file in Path(tmp_path).rglob("sigma-mem-*")]
            content = sent.read()
        assert sent.headers["content-length"] == str(len(content))
    assert seen == []
    assert content[:2] == (b"\x1f\x8b" if what == "export" else b"SQ")
