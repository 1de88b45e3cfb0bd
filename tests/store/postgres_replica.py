"""One replica: threads that decide and give feedback until they have done so often; prints what was taken.

Arguments: address, name, threads, rounds. A line of output is a JSON list: id, event and labels of feedback
that `feedback` acknowledged. A thread that meets a StoreError sends the same again.
"""

import json
import os
import random
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from sigma_mem import SigmaMem
from sigma_mem.errors import StoreError, UnknownDecisionError

PEERS, RANK = ["ann", "bob", "cyd"], 8


def again(call):
    """Send until it is taken."""
    for _ in range(200):
        try:
            return call()
        except StoreError:
            time.sleep(0.05)
    raise SystemExit("the database did not come back")


def work(mem, name, rounds):
    rng = random.Random(name)
    for n in range(rounds):
        phi = np.array([rng.gauss(0, 1) for _ in range(RANK)])
        phi /= np.linalg.norm(phi)
        labels = {peer: rng.uniform(-1, 1) for peer in rng.sample(PEERS, 2)}
        while True:
            decision = again(lambda phi=phi: mem.route(phi=phi))
            try:
                taken = again(
                    lambda d=decision, n=n, labels=labels: mem.feedback(
                        d.id, labels, id=f"{name}-{n}", source=name
                    )
                )
                break
            except UnknownDecisionError:
                continue  # the decision was queued when the database went away: decide again
        line = json.dumps([f"{name}-{n}", taken.event, dict(taken.labels)])
        os.write(1, line.encode() + b"\n")  # threads print at once


if __name__ == "__main__":
    url, name, threads, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    with again(lambda: SigmaMem(PEERS, url, rank=RANK)) as mem, ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda t: work(mem, f"{name}{t}", rounds), range(threads)))
