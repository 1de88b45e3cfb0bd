"""The memory itself: arrays only, no text, no I/O, no torch.

A peer p has competence M_p and evidence N_p, the pool has a relation G, and everything is a decayed sum over
events (`sums`), so that late, corrected and revoked labels are exact. Each file defines one kind of sum,
what an event contributes to it and how it is read. `SigmaState` joins them. `rates` and `regression` define
p̂.
"""

from sigma_mem.memory.reading import Reading
from sigma_mem.memory.settings import Settings
from sigma_mem.memory.state import SigmaState
from sigma_mem.memory.sums import Sum, Sums

__all__ = ["Reading", "Settings", "SigmaState", "Sum", "Sums"]
