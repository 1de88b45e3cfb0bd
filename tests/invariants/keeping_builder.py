"""Refolds a memory, or merges it with another one, into a new file, until it is killed."""

import sys

from sigma_mem import SigmaMem
from sigma_mem.admin import merge, refold

what, path, other, target = sys.argv[1:5]
with SigmaMem(path=path, readonly=True) as mem, SigmaMem(path=other, readonly=True) as second:
    print("ready", flush=True)
    made = refold(mem, target).memory if what == "refold" else merge(mem, second, target)
    print("done", flush=True)
    made.close()
