"""One object to use a memory with: decide, take feedback, explain.

A session is a fold over a ledger. `records` says what a line of the ledger looks like,
`fold` turns lines into state, live and on replay alike, `explain` takes a score apart again,
and `SigmaMem` is what users see.
"""

from sigma_mem.session.explain import Contribution, Explanation
from sigma_mem.session.sigma import SigmaMem

__all__ = ["Contribution", "Explanation", "SigmaMem"]
