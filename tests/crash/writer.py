"""Processes that write a memory until they are killed.

One server imports everything once, then forks a writer per line of its input,
``path <tab> log <tab> run <tab> seconds``, and kills it with SIGKILL after that many seconds or, for
``3 lines``, when it has noted so many more. It answers ``killed``, ``done`` or ``failed``. The writer notes
every acknowledged feedback in the log, after `feedback` has returned and before it does anything else.
"""

import json
import os
import random
import signal
import sys
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import numpy as np

from sigma_mem import SigmaMem
from sigma_mem.errors import InputError, MissingExtraError
from sigma_mem.store.postgres.tables import psycopg

PEERS = ["ann", "bob", "cyd"]
RANK = 8
THREADS = 3
EVENTS = 60


def write(path: str, log: str, run: str) -> None:
    """Decide and give feedback in several threads: on time, late, amended, and for peers that come.

    A source of the run before is revoked in every fourth run, and heard again in the next.
    """
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    with _open(path) as mem:
        if int(run) % 10 == 9 and f"new{run}" not in mem.peers:
            mem.add_peer(f"new{run}")
        if int(run) % 4 == 1:
            mem.revoke(f"{int(run) - 1}-0")
        elif int(run) % 4 == 2:
            mem.revoke(f"{int(run) - 2}-0", undo=True)
        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(lambda t: _thread(mem, out, f"{run}-{t}"), range(THREADS)))


def _open(path: str) -> SigmaMem:
    try:
        return SigmaMem(path=path, snapshot_every=16)
    except InputError:  # the first writer, or those before were killed too soon to make a memory
        return SigmaMem(PEERS, path, rank=RANK, snapshot_every=16)


def _thread(mem: SigmaMem, out: int, name: str) -> None:
    rng = random.Random(name)
    given = []
    for n in range(EVENTS):
        phi = np.array([rng.gauss(0, 1) for _ in range(RANK)])
        phi /= np.linalg.norm(phi)
        if rng.random() < 0.5:
            decision = mem.route(phi=phi)
        else:
            decision = mem.decide(None, {peer: str(rng.randrange(3)) for peer in PEERS}, phi=phi)
        given.append(decision.id)
        late = given[rng.randrange(len(given))]
        # No number comes twice, so every feedback says something new and has a line of its own.
        labels = {peer: rng.uniform(-1, 1) for peer in rng.sample(PEERS, rng.randint(1, 3))}
        source = rng.choice([name, name, "default"])
        feedback = mem.feedback(late, labels, source=source, id=f"{name}-{n}", amend=True)
        line = {"id": feedback.id, "event": feedback.event, "labels": dict(feedback.labels), "source": source}
        os.write(out, json.dumps(line).encode() + b"\n")


def _wait_for_lines(child: int, log: str, more: int) -> None:
    enough = _lines(log) + more
    while _lines(log) < enough and os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        time.sleep(0.002)


def _lines(log: str) -> int:
    try:
        with open(log, "rb") as file:
            return file.read().count(b"\n")
    except FileNotFoundError:
        return 0


def serve() -> None:
    """Fork, wait, kill, answer."""
    with suppress(MissingExtraError):  # imported once, for writers whose path is an address of PostgreSQL
        psycopg()
    for request in sys.stdin:
        path, log, run, seconds = request.rstrip("\n").split("\t")
        child = os.fork()
        if child == 0:
            try:
                write(path, log, run)
                os._exit(0)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
        if seconds.endswith(" lines"):
            _wait_for_lines(child, log, int(seconds.split()[0]))
        else:
            time.sleep(float(seconds))
        os.kill(child, signal.SIGKILL)  # not reaped yet, so its pid is still its own
        _, status = os.waitpid(child, 0)
        print("killed" if os.WIFSIGNALED(status) else ("failed" if status else "done"), flush=True)


if __name__ == "__main__":
    serve()
