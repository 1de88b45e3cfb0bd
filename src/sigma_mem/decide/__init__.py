"""From what the memory knows to a choice: pure functions of arrays.

`route` picks a peer before anyone answers, `vote` an answer that several may have given, `posterior`
works with the relation G and with a center's judgement, `mixture` joins several votes, `explore` tries
peers if only the chosen one is ever labelled. `READS` lists every single read. Ties go to the peer
listed first.
"""

from sigma_mem.decide.posterior import SELECT
from sigma_mem.decide.read import Choice, Outcome, Read, Reads, View
from sigma_mem.decide.route import ROUTES
from sigma_mem.decide.vote import VOTES

__all__ = ["READS", "Choice", "Outcome", "Read", "Reads", "View"]

READS = Reads(*VOTES, *ROUTES, SELECT)
