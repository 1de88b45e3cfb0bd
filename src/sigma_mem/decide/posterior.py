"""The posterior over which peers are right, from utilities and the relation G.

    z_p = (U_p − mean U)/(std U + ε)                                       (eq:sigma_normalized_utility)
    P(y) ∝ exp(w_u Σ_p z_p y_p + (w_g/2) Σ_{p≠q} G_pq y_p y_q),  y ∈ {−1, 1}^P   (eq:sigma_topology_posterior)
    p̂ = argmax_p E[y_p]                                                     (eq:sigma_peer_select)

U may be any per-peer utility: the steered center's Yes-minus-No, or a read of the memory.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from sigma_mem.decide.read import Choice, Read, View
from sigma_mem.events import FloatArray

EXACT_PEERS = 16  # 2^16 states: a few milliseconds and 8 MB

Method = Literal["exact", "belief-propagation"]


@dataclass(frozen=True, slots=True)
class Posterior:
    """E[y_p] of every peer, how it was computed, and whether the computation converged."""

    expectation: FloatArray
    method: Method
    converged: bool

    @property
    def peer(self) -> int:
        """The selected peer (eq:sigma_peer_select); ties go to the one listed first."""
        return first_largest(self.expectation)


def first_largest(expectation: FloatArray) -> int:
    """argmax, with what differs by the rounding of the sums over states taken as equal.

    >>> import numpy as np
    >>> first_largest(np.array([0.3, 0.3 + 1e-16, 0.1]))
    0
    """
    return int(expectation.round(12).argmax())


def normalized_utility(utility: FloatArray, epsilon: float = 1e-8) -> FloatArray:
    """z: utilities centred and scaled within the peer set, (P,).

    >>> import numpy as np
    >>> normalized_utility(np.array([1.0, 2.0, 3.0])).round(3).tolist()
    [-1.225, 0.0, 1.225]
    """
    z: FloatArray = (utility - utility.mean()) / (utility.std() + epsilon)
    return z


def posterior(
    z: FloatArray, G: FloatArray | None, w_u: float = 1.0, w_g: float = 1.0, method: Method | None = None
) -> Posterior:
    """E[y] under the posterior: exact to 16 peers, belief propagation beyond, and which of the two it was.

    Parameters
    ----------
    z : array (P,)
    G : array (P, P), optional
        Symmetric; its diagonal does not enter. None for no relations.
    method : "exact" or "belief-propagation"
        None chooses by the number of peers.

    Examples
    --------
    Without relations every peer stands for itself, E[y] = tanh(w_u z):

    >>> import numpy as np
    >>> posterior(np.array([0.5, -0.5]), None).expectation.round(4).tolist()
    [0.4621, -0.4621]
    """
    chosen: Method = method or ("exact" if len(z) <= EXACT_PEERS else "belief-propagation")
    field = w_u * z
    coupling = None if G is None else w_g * G
    if chosen == "exact":
        return Posterior(enumerate_states(field, coupling), "exact", True)
    if coupling is None:
        return Posterior(np.tanh(field), "belief-propagation", True)
    expectation, converged = belief_propagation(field, coupling)
    return Posterior(expectation, "belief-propagation", converged)


@lru_cache(maxsize=EXACT_PEERS)
def _states(n_peers: int) -> FloatArray:
    """All y ∈ {−1, +1}^P, shape (2^P, P)."""
    bits = (np.arange(2**n_peers)[:, None] >> np.arange(n_peers)[::-1]) & 1
    return (2 * bits - 1).astype(np.float64)


def enumerate_states(field: FloatArray, coupling: FloatArray | None) -> FloatArray:
    """E[y] by summing over all 2^P states; (P,), with couplings (P, P) or None."""
    n_peers = len(field)
    if n_peers > EXACT_PEERS:
        raise ValueError(f"{n_peers} peers have 2^{n_peers} states; expected at most {EXACT_PEERS} peers")
    y = _states(n_peers)
    log_weight = y @ field
    if coupling is not None:
        # Every pair stands twice in Σ_{p≠q}, and G is symmetric: the half cancels over p < q.
        log_weight += np.add.reduce((y @ np.triu(coupling, 1)) * y, axis=1)
    weight = np.exp(log_weight - log_weight.max())
    expectation: FloatArray = weight @ y / weight.sum()
    return expectation


def belief_propagation(
    field: FloatArray, coupling: FloatArray, steps: int = 200, damping: float = 0.5, tolerance: float = 1e-8
) -> tuple[FloatArray, bool]:
    """E[y] by damped sum-product messages on the complete graph of peers.

    Exact without couplings and on trees; on dense graphs the error grows with the couplings, so the
    result is reported as an approximation, together with whether the messages settled.

    Returns
    -------
    expectation : array (P,)
    converged : bool
    """
    strength = np.tanh(coupling).clip(-1.0 + 1e-12, 1.0 - 1e-12)  # arctanh stays finite
    np.fill_diagonal(strength, 0.0)
    messages = np.zeros_like(strength)  # [p, q]: the message from p to q, in log-odds halves
    for _ in range(steps):
        # The message from p to q is what p believes without q's own message.
        cavity = (field + messages.sum(axis=0))[:, None] - messages.T
        fresh = np.arctanh(strength * np.tanh(cavity))
        change = float(np.abs(fresh - messages).max())
        messages = damping * messages + (1.0 - damping) * fresh
        if change < tolerance:
            return np.tanh(field + messages.sum(axis=0)), True
    return np.tanh(field + messages.sum(axis=0)), False


def _select(view: View) -> Choice:
    """The posterior on the center's utilities, over the peers it judged; totals are E[y] by peer."""
    if view.utility is None:
        raise ValueError("the view has no utility; expected the center's judgement of the answers")
    judged = np.flatnonzero(~np.isnan(view.utility))
    result = posterior(normalized_utility(view.utility[judged]), view.relation()[np.ix_(judged, judged)])
    expectation = np.full(len(view.utility), np.nan)
    expectation[judged] = result.expectation
    peer = int(judged[result.peer])
    return Choice(peer, int(view.groups[peer]), expectation)


SELECT = Read(
    "select",
    "center",
    _select,
    lambda view, choice: 0.5 + 0.5 * float(choice.totals[choice.peer]),
    "the steered center's judgement of the answers, with relation G",
)
