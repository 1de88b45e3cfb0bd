"""Does operations of `keeping` to a memory in a file, and notes each in a log, until it is killed."""

import os
import pickle
import sys

from invariants.keeping import FIRST, RANK, SETTINGS, START, NaiveMemory, step
from sigma_mem import SigmaMem

path, log = sys.argv[1:3]
clock, naive = [START], NaiveMemory()
out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
todo = pickle.load(sys.stdin.buffer)
how = {"peers": FIRST, "rank": RANK, "settings": SETTINGS, "snapshot_every": 7, "durable": "all"}
with SigmaMem(path=path, clock=lambda: clock[0], **how) as mem:
    for number, operation in enumerate(todo):
        step(mem, naive, operation, clock)
        os.write(out, b"%d\n" % number)
        print(number, flush=True)
