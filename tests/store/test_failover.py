"""A real standby that lags takes over: replicas go on with what its ledger says, and with nothing else."""

import random
import subprocess
import sys
import time
from contextlib import suppress

import numpy as np
import pytest

from postgres_server import PostgresServer
from sigma_mem import SigmaMem
from sigma_mem.errors import StoreError

AT = np.array([1.0, 0.0])
OTHER = """
import sys
from sigma_mem import SigmaMem
with SigmaMem(path=sys.argv[1]) as mem:
    for _ in range(int(sys.argv[2])):
        mem.feedback(mem.route(phi=[1.0, 0.0]), {'x': False, 'y': True})
"""


def work(mem: SigmaMem, events: int) -> None:
    for _ in range(events):
        mem.feedback(mem.route(phi=AT), {"x": True, "y": False})


def wait_for(condition) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def lagging(primary: PostgresServer, name: str) -> PostgresServer:
    """A standby that has everything so far, and gets nothing more."""
    standby = primary.standby(name)
    with primary.connect() as db, standby.connect() as other:
        end = db.execute("SELECT pg_current_wal_lsn()").fetchone()[0]
        reached = "SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn"
        wait_for(lambda: other.execute(reached, [end]).fetchone()[0])
        other.execute("ALTER SYSTEM SET primary_conninfo = ''")
        other.execute("SELECT pg_reload_conf()")
        wait_for(lambda: not other.execute("SELECT count(*) FROM pg_stat_wal_receiver").fetchone()[0])
    return standby


@pytest.mark.timeout(600)
@pytest.mark.parametrize("rounds", [pytest.param(6, marks=pytest.mark.endurance)])
def test_replicas_follow_a_standby_that_lost_lines(bits, rounds):
    """postgres_failover_silently_wrong: the same numbers of lines, and other lines."""
    rng, primary = random.Random(rounds), PostgresServer()
    first, crashed = primary, []
    try:
        url = primary.url()
        mem = SigmaMem(["x", "y"], url, rank=2, snapshot_every=10)
        for number in range(rounds):
            work(mem, 10)
            standby = lagging(primary, f"standby{number}")
            kept, lost = mem.events, rng.randrange(1, 12)
            work(mem, lost)
            crashed.append(primary)
            standby.take_over(primary)
            primary = standby
            others = rng.choice((0, lost - 1, lost, lost + 1, 3 * lost))
            subprocess.run([sys.executable, "-c", OTHER, url, str(others)], check=True)
            if rng.random() < 0.5:
                with suppress(StoreError):  # must not spread what was lost
                    mem.journal.snapshot()
            work(mem, 1)
            assert mem.events == kept + others + 1
            assert bits(mem) == bits(mem.journal.replayed())
            mem.journal.snapshot()
            with SigmaMem(path=url) as new:
                assert bits(new) == bits(new.journal.replayed()) == bits(mem)
                assert new.store.verify() == 1 + 2 * new.events
        mem.store.close()
    finally:
        primary.stop()
        first.close()
