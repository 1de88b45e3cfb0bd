"""Random ``kill -9`` of processes that write one memory in PostgreSQL, while others write it too."""

import random
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from crash.test_kill import acknowledged, servers  # noqa: F401
from sigma_mem import SigmaMem
from sigma_mem.errors import StoreError
from sigma_mem.ledger.records import line_of
from sigma_mem.store import PostgresStore


def survive(server, url, log, replica, kills):
    """Kill one replica's processes again and again, while the other's write on."""
    outcomes = Counter()
    for kill in kills:
        run = 2 * kill + replica  # names what it writes, so none comes twice
        more = random.Random(run).randint(1, 12)
        server.stdin.write(f"{url}\t{log}\t{run}\t{more} lines\n")
        server.stdin.flush()
        outcomes[server.stdout.readline().strip()] += 1
    return outcomes


def check(url, logs, bits):
    """Everything acknowledged is in the ledger, once, and the state is the ledger's."""
    told = [line for log in logs for line in acknowledged(log)]
    try:
        store = PostgresStore(url, readonly=True)
    except StoreError:
        assert told == []
        return 0, 0
    try:
        records = store.verify()
        lines = [r for r in store.records("default") if r.kind == "feedback"]
        assert set(Counter(r.id for r in lines).values()) <= {1}
        kept = {r.id: r for r in lines}
        for line in told:
            found = kept[line["id"]]
            assert (found.event, line_of(found).body.labels) == (line["event"], line["labels"])
        if records:
            mem = SigmaMem(store=store)
            assert bits(mem) == bits(mem.journal.replayed())
        return len(told), records
    finally:
        store.close()


@pytest.mark.parametrize("kills", [8, pytest.param(200, marks=pytest.mark.endurance)])
def test_nothing_acknowledged_is_lost_while_replicas_are_killed(servers, tmp_path, postgres, bits, kills):  # noqa: F811
    logs = [tmp_path / f"{replica}.log" for replica in range(2)]
    outcomes = Counter()
    for first in range(0, kills // 2, 10):
        each = range(first, min(first + 10, kills // 2))
        with ThreadPoolExecutor(2) as pool:
            runs = pool.map(
                lambda replica, each=each: survive(servers[replica], postgres, logs[replica], replica, each),
                range(2),
            )
            outcomes.update(sum(runs, Counter()))
        told, records = check(postgres, logs, bits)
    print(f"{dict(outcomes)}: {told} acknowledged, {records} records")
    assert outcomes["failed"] == 0
    assert outcomes["killed"] >= 0.7 * kills
    assert told > kills
    start = time.monotonic()
    with SigmaMem(path=postgres) as mem:  # nobody's lock is left behind
        mem.feedback(mem.route(phi=[1.0] + [0.0] * 7).id, {"ann": True})
    assert time.monotonic() - start < 10.0
