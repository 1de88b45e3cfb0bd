"""One object to use a memory with: decide, take feedback, explain.

`SigmaMem` is what users see. `handle` opens it, `task` makes its decisions, `feedback` takes labels;
everything it does becomes a line of the ledger. `explain` takes a score apart; `drift` names peers that
changed; `trust` and `history` only read. `checks` validates arguments.
"""

from sigma_mem.ledger.costs import Budget, Price, Spending
from sigma_mem.session.drift import Drift
from sigma_mem.session.explain import Basis, Contribution, Explanation
from sigma_mem.session.history import Decisions, History, HistoryEntry
from sigma_mem.session.sigma import SigmaMem
from sigma_mem.session.trust import PeerTrust, Source, TrustByPeer

__all__ = [
    "Basis",
    "Budget",
    "Contribution",
    "Decisions",
    "Drift",
    "Explanation",
    "History",
    "HistoryEntry",
    "PeerTrust",
    "Price",
    "SigmaMem",
    "Source",
    "Spending",
    "TrustByPeer",
]
