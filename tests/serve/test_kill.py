"""Random ``kill -9`` of a service under load: no acknowledged feedback is lost or doubled."""

import json
import random
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from crash.conftest import bits  # noqa: F401
from sigma_mem import Client, SigmaMem
from sigma_mem.client import ServiceError
from sigma_mem.errors import UnknownDecisionError
from sigma_mem.ledger.records import line_of
from sigma_mem.store.open import open_store

PEERS = ["ann", "bob", "cyd"]
WRITERS = 3


@pytest.fixture
def services():
    started = subprocess.Popen(
        [sys.executable, Path(__file__).with_name("killed_service.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    yield started
    started.communicate(timeout=60)


@pytest.fixture(params=["sqlite", "postgres"])
def store_path(request, tmp_path):
    """What a service is given as its path, for every kind of store: a file, or the address of a database."""
    return str(tmp_path / "memory.db") if request.param == "sqlite" else request.getfixturevalue("postgres")


class Writer:
    """Decides and gives feedback until the service is gone; what was not acknowledged, it sends again."""

    def __init__(self, name):
        self.name, self.count = name, 0
        self.rng = random.Random(name)
        self.acknowledged = {}  # id of feedback → event, labels
        self.open = None  # what was sent, and perhaps taken

    def work(self, url):
        client = Client(url, key="", timeout=60.0)
        try:
            memory = client.namespace("default", PEERS, encoder="hashed")
            while True:
                self.give(memory)
        except ServiceError as gone:
            if gone.status:
                raise
            return str(gone)
        finally:
            client.close()

    def give(self, memory):
        self.open = self.open or self.next(memory)
        id, decision, labels = self.open
        with suppress(UnknownDecisionError):  # it was not on disk yet when its service was killed
            taken = memory.feedback(decision, labels, id=id, amend=True)
            self.acknowledged[id] = (taken.event, dict(taken.labels))
        self.open = None

    def next(self, memory):
        if self.rng.random() < 0.5:
            decision = memory.route(f"question {self.rng.randrange(9)}")
        else:
            decision = memory.decide("which?", {peer: str(self.rng.randrange(3)) for peer in PEERS})
        self.count += 1
        return f"{self.name}-{self.count}", decision.id, {p: self.rng.uniform(-1, 1) for p in PEERS[:2]}


def check(path, writers, bits):  # noqa: F811
    """All acknowledged feedback is in the ledger, nothing is there twice; the state is the ledger's."""
    store = open_store(path, readonly=True)
    try:
        store.verify()
        lines = [record for record in store.records("default") if record.kind == "feedback"]
        count = Counter(record.id for record in lines)
        assert set(count.values()) <= {1}
        kept = {record.id: (record.event, line_of(record).body.labels) for record in lines}
        for writer in writers:
            for id, said in writer.acknowledged.items():
                assert kept[id] == said
        sent = {writer.open[0] for writer in writers if writer.open} | set().union(
            *(writer.acknowledged for writer in writers)
        )
        assert set(kept) <= sent
        mem = SigmaMem(store=store)
        assert bits(mem) == bits(mem.journal.replayed())
        return len(lines)
    finally:
        store.close()


@pytest.mark.parametrize("kills", [3, pytest.param(200, marks=pytest.mark.endurance)])
def test_no_acknowledged_feedback_is_lost_or_doubled(services, store_path, tmp_path, bits, kills):  # noqa: F811
    started, rng = json.dumps({"path": store_path, "audit": str(tmp_path / "audit")}), random.Random(7)
    writers = [Writer(f"w{n}") for n in range(WRITERS)]
    lines = 0
    for _ in range(kills):
        url = ask(services, started)
        enough = told(writers) + rng.randint(1, 25)
        with ThreadPoolExecutor(WRITERS) as pool:
            working = [pool.submit(writer.work, url) for writer in writers]
            while told(writers) < enough:
                assert not all(each.done() for each in working), [each.result() for each in working]
                time.sleep(0.002)
            assert ask(services, "kill") == "killed"
        for each in working:
            each.result()
        now = check(store_path, writers, bits)
        assert now >= lines
        lines = now
    print(f"{kills} kills: {told(writers)} acknowledged, {lines} in the ledger")
    assert told(writers) > 5 * kills


def ask(services, line):
    services.stdin.write(f"{line}\n")
    services.stdin.flush()
    return services.stdout.readline().strip()


def told(writers):
    return sum(len(writer.acknowledged) for writer in writers)
