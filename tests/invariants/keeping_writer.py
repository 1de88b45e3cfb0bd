r"""Does operations of `keeping` to memories in files, and notes each in a log, until it is killed.

Two handles on one namespace take turns, and every third operation may be interrupted.

Imports everything once, then forks a writer per line of its input, ``path\tlog\tseed\tseconds``,
kills it with SIGKILL so many seconds later, and answers ``killed`` or ``done``.
"""

import os
import random
import signal
import sys
import time
import traceback
from pathlib import Path

from invariants.keeping import FIRST, RANK, SETTINGS, START, NaiveMemory, drawn, interrupted_step
from sigma_mem import SigmaMem


def write(path: str, log: str, seed: int) -> None:
    clock, naive = [START], NaiveMemory()
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    how = {"peers": FIRST, "rank": RANK, "settings": SETTINGS, "snapshot_every": 7, "durable": "all"}
    rng = random.Random(seed)
    with SigmaMem(path=path, clock=lambda: clock[0], **how) as mem:
        handles = [mem, mem.namespace("default", durable="all")]
        for operation in drawn(seed):
            after = int(10 ** rng.uniform(0, 3.5)) if rng.random() < 0.3 else None
            done = interrupted_step(handles[rng.randrange(2)], naive, operation, clock, after)
            os.write(out, b"done\n" if done else b"not done\n")


def has_begun(log: str) -> bool:
    """Whether an operation is noted."""
    return Path(log).exists() and Path(log).stat().st_size > 0


for request in sys.stdin:
    path, log, seed, seconds = request.rstrip("\n").split("\t")
    child = os.fork()
    if child == 0:
        try:
            write(path, log, int(seed))
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    ends = time.monotonic() + 60.0
    while int(seed) % 2 and not has_begun(log) and time.monotonic() < ends:
        time.sleep(0.005)  # on a busy machine nothing would be done yet; every other kill may be that early
    time.sleep(float(seconds))
    os.kill(child, signal.SIGKILL)  # not reaped yet, so its pid is still its own
    _, status = os.waitpid(child, 0)
    print("killed" if os.WIFSIGNALED(status) else ("failed" if status else "done"), flush=True)
