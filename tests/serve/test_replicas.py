"""Two services on one PostgreSQL: clients use either, and a restart of the database is waited for."""

import json
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from crash.conftest import bits  # noqa: F401
from sigma_mem import Client, SigmaMem
from sigma_mem.client import ServiceError
from sigma_mem.errors import StoreError, UnknownDecisionError
from sigma_mem.ledger.records import line_of

PEERS = ["ann", "bob", "cyd"]
WRITERS = 16


@pytest.fixture
def addresses(postgres):
    """Two services on the same memory."""
    program = Path(__file__).with_name("killed_service.py")
    started = [
        subprocess.Popen([sys.executable, program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    for service in started:
        service.stdin.write(json.dumps({"path": postgres}) + "\n")
        service.stdin.flush()
    yield [service.stdout.readline().strip() for service in started]
    for service in started:
        service.communicate("stop\n", timeout=60)


def patiently(call, refused):
    """Send until the service takes it; it may say 503 while the database is away, and nothing else."""
    while True:
        try:
            return call()
        except (ServiceError, StoreError) as error:  # a 503 of the store's is the store's error again
            if isinstance(error, ServiceError) and error.status != 503:
                raise
            refused.append(error)
            time.sleep(0.05)


def write(name, addresses, rounds, refused, restart):
    """Decide on one service and give feedback to the other."""
    clients = [Client(address, key="", timeout=30.0) for address in addresses]
    try:
        return write_to(clients, name, rounds, refused, restart)
    finally:
        for client in clients:
            client.close()


def write_to(clients, name, rounds, refused, restart):
    memories = [
        patiently(lambda c=client: c.namespace("default", PEERS, rank=8), refused) for client in clients
    ]
    taken = {}
    for n in range(rounds):
        here, there = memories[n % 2], memories[(n + 1) % 2]
        while f"{name}-{n}" not in taken:
            decision = patiently(lambda m=here: m.route(phi=[1.0] + [0.0] * 7), refused)
            labels = {"ann": (n + 1) / 100, "bob": -0.5}
            try:
                said = patiently(
                    lambda m=there, d=decision, x=labels, n=n: m.feedback(d.id, x, id=f"{name}-{n}"), refused
                )
            except UnknownDecisionError:  # a decision is written behind: the database went away before
                assert restart
                continue
            taken[said.id] = (said.event, dict(said.labels))
    return taken


@pytest.mark.parametrize("restart", [False, True])
def test_sixteen_writers_lose_and_double_nothing(postgres_server, postgres, addresses, bits, restart):  # noqa: F811
    refused, done = [], threading.Event()

    def interrupt():
        while restart and not done.wait(0.7):
            postgres_server.stop()
            time.sleep(0.2)
            postgres_server.start()
            done.wait(1.5)

    with ThreadPoolExecutor(WRITERS + 1) as pool:
        restarting = pool.submit(interrupt)
        try:
            runs = list(pool.map(lambda n: write(f"w{n}", addresses, 4, refused, restart), range(WRITERS)))
        finally:
            done.set()
            restarting.result()
    taken = {id: said for run in runs for id, said in run.items()}
    assert len(taken) == 4 * WRITERS
    assert restart or not refused
    with SigmaMem(path=postgres, readonly=True) as mem:
        mem.store.verify()
        lines = [r for r in mem.store.records("default") if r.kind == "feedback"]
        assert set(Counter(r.id for r in lines).values()) == {1}
        assert {r.id: (r.event, line_of(r).body.labels) for r in lines} == taken
        assert bits(mem) == bits(mem.journal.replayed())
