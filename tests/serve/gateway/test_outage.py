"""The store goes away and comes back: the gateway serves meanwhile, and records afterwards."""

import importlib.util
import socket
import sys
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace

import httpx2 as httpx
import pytest

from serve.gateway.conftest import ASK, memory_of
from serve.gateway.upstreams import says
from sigma_mem.serve.config import RequestLimits

MODELS = ["sigma-mem", "sigma-mem/vote", "sigma-mem/ask"]


@pytest.fixture(params=["file", "postgres"])
def store(request, tmp_path):
    """A store that can be stopped and started: its address, `stop` and `start`."""
    if request.param == "postgres":
        server, url = request.getfixturevalue("postgres_server"), request.getfixturevalue("postgres")
        yield SimpleNamespace(path=url, stop=server.stop, start=server.start)
        return
    file, away = tmp_path / "memory.db", tmp_path / "away.db"
    yield SimpleNamespace(path=str(file), stop=lambda: file.rename(away), start=lambda: away.rename(file))


def post(gateway, model="sigma-mem", stream=False):
    began = time.monotonic()
    response = httpx.post(
        f"{gateway.url}/v1/chat/completions",
        json={"model": model, "messages": ASK, "stream": stream},
        timeout=30.0,
    )
    return response, time.monotonic() - began


def feedback(gateway, response):
    sent = {"id": response.json()["id"], "score": 1.0}
    return httpx.post(f"{gateway.url}/v1/feedback", json=sent, timeout=30.0)


def metrics(gateway):
    lines = httpx.get(f"{gateway.url}/metrics").text.splitlines()
    return dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))


def wait_until_back(gateway):
    deadline = time.monotonic() + 30
    while metrics(gateway)["sigma_mem_store_up"] != "1.0":
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_the_gateway_serves_without_its_store_and_records_when_it_is_back(start, store):
    prices = {name: {"input_price": 1.0, "output_price": 1.0} for name in ("ann", "bob")}
    gateway = start({"ann": says("391"), "bob": says("381")}, path=store.path, peers=prices, explore=False)
    before, _ = post(gateway)
    assert "x-sigma-mem-unrecorded" not in before.headers
    assert feedback(gateway, before).is_success
    mem = memory_of(gateway)
    store.stop()
    try:
        served = [post(gateway, model, stream) for model in MODELS for stream in (False, True)]
        state = mem.journal._fold.state.clock
        again = [post(gateway) for _ in range(3)]
        assert mem.journal._fold.state.clock == state  # they change nothing yet
        for response, seconds in (*served, *again):
            assert response.status_code == 200, response.text
            assert seconds < 4.0
            assert response.headers["x-sigma-mem-unrecorded"] == "queued"
            assert '"unrecorded":"queued"' in response.text.replace(" ", "")
        assert all(seconds < 1.0 for _, seconds in again)
        refused = feedback(gateway, again[0][0])
        assert refused.status_code == 503
        assert "postgres" not in refused.text
        assert "memory.db" not in refused.text
        if "postgres" in store.path:
            assert httpx.get(f"{gateway.url}/readyz").json() == {"status": "ready", "store": "away"}
        found = metrics(gateway)
        assert (found["sigma_mem_store_up"], found["sigma_mem_unrecorded_waiting"]) == ("0.0", "9.0")
    finally:
        store.start()
    wait_until_back(gateway)
    for response, _ in again:
        body = response.json()
        made = mem.decision(body["id"])
        assert made.id == body["sigma_mem"]["decision"]
        assert made.confidence == pytest.approx(body["sigma_mem"]["confidence"], abs=1e-6)
        assert (made.served or made.peer) == body["model"]
        assert made.cost == pytest.approx(body["sigma_mem"]["cost"])
        assert feedback(gateway, response).is_success
    ticks = [decision.tick for decision in mem.decisions(9)]
    assert sorted(ticks) == [float(n) for n in range(2, 11)]
    assert metrics(gateway)['sigma_mem_unrecorded_total{outcome="recorded"}'] == "9.0"
    with mem.journal as fold:
        assert fold.state.clock == mem.journal.replayed().state.clock
    assert "x-sigma-mem-unrecorded" not in post(gateway)[0].headers


def test_what_the_queue_cannot_hold_is_dropped_and_counted(start, tmp_path):
    file = tmp_path / "memory.db"
    gateway = start({"ann": says("391")}, path=str(file), limits=RequestLimits(unrecorded=2))
    post(gateway)
    file.rename(tmp_path / "away.db")
    marks = [post(gateway)[0].headers["x-sigma-mem-unrecorded"] for _ in range(4)]
    assert marks == ["queued", "queued", "dropped", "dropped"]
    (tmp_path / "away.db").rename(file)
    wait_until_back(gateway)
    assert memory_of(gateway).events == 3
    assert metrics(gateway)['sigma_mem_unrecorded_total{outcome="dropped"}'] == "2.0"


def test_a_decision_about_another_pool_is_not_recorded(start, tmp_path):
    file = tmp_path / "memory.db"
    gateway = start({"ann": says("391"), "bob": says("3")}, path=str(file))
    post(gateway)
    mem = memory_of(gateway)
    file.rename(tmp_path / "away.db")
    kept = post(gateway)[0]
    with mem.journal:
        mem.journal.suspended = False
        (tmp_path / "away.db").rename(file)
        mem.add_peer("cat")
    wait_until_back(gateway)
    assert kept.headers["x-sigma-mem-unrecorded"] == "queued"
    assert metrics(gateway)['sigma_mem_unrecorded_total{outcome="dropped"}'] == "1.0"
    assert mem.events == 1


def test_a_service_that_is_told_so_refuses_without_its_store(start, tmp_path):
    file = tmp_path / "memory.db"
    gateway = start({"ann": says("391")}, path=str(file), on_store_failure="refuse")
    post(gateway)
    file.rename(tmp_path / "away.db")
    refused, _ = post(gateway)
    assert refused.status_code == 503
    assert "memory.db" not in refused.text
    (tmp_path / "away.db").rename(file)
    assert post(gateway)[0].status_code == 200


@pytest.mark.parametrize("requests", [150, pytest.param(2000, marks=pytest.mark.endurance)])
def test_three_upstreams_that_misbehave_and_a_store_that_goes_and_comes(store, requests):
    file = Path(__file__).parents[3] / "benchmarks" / "misbehaving.py"
    spec = importlib.util.spec_from_file_location("misbehaving", file)
    benchmark = sys.modules["misbehaving"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(benchmark)
    report = benchmark.measure(store.path, store.stop, store.start, requests)
    assert report.faults == []
    assert report.marks["queued"] >= requests // 5


@contextmanager
def relay(folder, target):
    """A socket in front of a server's; after `silent.set()` nothing that comes in goes on, either way."""
    listener, silent, opened = socket.socket(socket.AF_UNIX), threading.Event(), []
    listener.bind(str(folder / ".s.PGSQL.5432"))
    listener.listen(64)

    def pump(source, to):
        with suppress(OSError):
            while data := source.recv(65536):
                if silent.is_set():
                    return  # and both sides stay open
                to.sendall(data)
            to.shutdown(socket.SHUT_WR)

    def accept():
        with suppress(OSError):
            while True:
                client, server = listener.accept()[0], socket.socket(socket.AF_UNIX)
                opened.extend((client, server))
                if not silent.is_set():
                    server.connect(target)
                    for ends in ((client, server), (server, client)):
                        threading.Thread(target=pump, args=ends, daemon=True).start()

    def speak():
        for each in opened:
            each.close()
        silent.clear()

    threading.Thread(target=accept, daemon=True).start()
    yield SimpleNamespace(silent=silent, speak=speak)
    speak()
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()


def test_the_gateway_serves_while_the_database_swallows_everything(start, postgres, tmp_path):
    """Its address takes connections and statements, and never answers."""
    real = postgres.partition("host=")[2].partition("&")[0]
    with relay(tmp_path, f"{real}/.s.PGSQL.5432") as line, start.fresh() as begin:
        gateway = begin({"ann": says("391")}, path=postgres.replace(real, str(tmp_path)))
        assert "x-sigma-mem-unrecorded" not in post(gateway)[0].headers
        line.silent.set()
        first, *others = [post(gateway) for _ in range(4)]
        assert first[1] < 15.0
        assert all(seconds < 2.0 for _, seconds in others)
        for response, _ in (first, *others):
            assert response.status_code == 200
            assert response.headers["x-sigma-mem-unrecorded"] == "queued"
        line.speak()
        wait_until_back(gateway)
        assert len(list(memory_of(gateway).decisions(9))) == 5
