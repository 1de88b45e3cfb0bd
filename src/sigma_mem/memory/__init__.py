"""The memory itself: arrays only, no text, no I/O, no torch.

A peer p has competence M_p and evidence N_p, the pool has a relation G, and everything is a
`DecayedSum` over events, so that late, corrected and revoked labels are exact. `SigmaState`
joins them. `rates` and `regression` say what p̂ is.
"""

from sigma_mem.memory.competence import Competence
from sigma_mem.memory.decayed import DecayedSum
from sigma_mem.memory.reading import Reading
from sigma_mem.memory.relation import Relation
from sigma_mem.memory.settings import Settings
from sigma_mem.memory.state import SigmaState

__all__ = ["Competence", "DecayedSum", "Reading", "Relation", "Settings", "SigmaState"]
