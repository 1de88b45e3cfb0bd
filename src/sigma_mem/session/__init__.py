"""One object to use a memory with: decide, take feedback, explain.

`SigmaMem` is what users see. Everything it does becomes one of the `lines` of a ledger; `fold` says what a
line does, live and on replay alike, and `journal` keeps ledger and state in step. `explain` takes a score
apart; `drift` names peers that changed; `looking`, `history` and `listing` look without touching.
"""

from sigma_mem.ledger.costs import Budget, Price, Spending
from sigma_mem.session.decisions import Decisions
from sigma_mem.session.drift import Drift
from sigma_mem.session.explain import Basis, Contribution, Explanation
from sigma_mem.session.history import History, HistoryEntry
from sigma_mem.session.looking import PeerTrust, TrustByPeer, TrustTable
from sigma_mem.session.sigma import SigmaMem
from sigma_mem.session.sources import Source

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
    "TrustTable",
]
