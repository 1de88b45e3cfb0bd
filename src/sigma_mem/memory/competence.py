"""Competence M_p and evidence N_p of every peer: write, score, readout.

    M_p = η Σ_s γ^(now − s) c_{p,s} φ_sφ_sᵀ          (eq:sigma_mem_update)
    N_p = η Σ_s γ^(now − s) 1[p labelled at s] φ_sφ_sᵀ

The last few events are kept in a window in parallel form, where a score needs only (φ·φ_s)² and a write
only stores a row. A full window is folded into the matrices by one matrix product. Nothing is approximated,
and a write costs less than touching P matrices on every event.

BLAS computes the last rows of a product, if they are not four, in another way than the others. Peers with
equal records would get unequal last bits, and a tie would be none. So an odd pool ends with an empty peer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from sigma_mem.events import FloatArray
from sigma_mem.memory.decayed import DecayedSum

WINDOW = 64  # events; folding costs O(P r²) per event at any size, a longer window slows reads


class Competence:
    """M and N of n_peers peers in rank dimensions, without the factor η (the state applies it).

    Examples
    --------
    >>> import numpy as np
    >>> k = Competence(n_peers=2, rank=3, rate=0.0)
    >>> k.write(np.array([1.0, 0, 0]), c=np.array([1.0, -1.0]), seen=np.array([1.0, 1.0]), tick=1)
    >>> score, evidence = k.score(np.array([0.6, 0.8, 0]), now=1)
    >>> score.round(2).tolist(), evidence.round(2).tolist()
    ([0.36, -0.36], [0.36, 0.36])
    """

    def __init__(self, n_peers: int, rank: int, rate: float) -> None:
        # The leading axis is 0 for M and 1 for N, the second one runs over peers.
        kept = _even(n_peers)
        arrays = {
            "sums": np.zeros((2, kept, rank, rank)),
            "traces": np.zeros((2, kept)),  # of the sums, window included
            "coefficients": np.zeros((2, kept, WINDOW)),
        }
        self._use(DecayedSum(rate, arrays), n_peers)
        self._phis = np.zeros((WINDOW, rank))
        self._filled = 0
        self._folded = False  # whether the matrices hold anything

    def _use(self, decayed: DecayedSum, n_peers: int) -> None:
        """Hold flat views of the arrays: rows of matrices, and (2P, WINDOW) coefficients."""
        self.decayed, self.n_peers = decayed, n_peers
        _, self._kept, self.rank, _ = decayed.arrays["sums"].shape
        self._sums = decayed.arrays["sums"].reshape(-1, self.rank, self.rank)
        self._rows = self._sums.reshape(-1, self.rank)
        self._traces = decayed.arrays["traces"].reshape(-1)
        self._coefficients = decayed.arrays["coefficients"].reshape(-1, WINDOW)

    # --- write ---------------------------------------------------------------------------

    def write(self, phi: FloatArray, c: FloatArray, seen: FloatArray, tick: float) -> None:
        """Add γ^(now − tick)·c_p·φφᵀ to M_p and γ^(now − tick)·seen_p·φφᵀ to N_p.

        A correction passes differences: c = c_new − c_old, seen = seen_new − seen_old.
        """
        if self._filled == WINDOW:
            self._fold()
        column = np.zeros(2 * self._kept)
        column[: self.n_peers] = c
        column[self._kept : self._kept + self.n_peers] = seen
        column *= self.decayed.weight(tick)
        self._phis[self._filled] = phi
        self._coefficients[:, self._filled] = column
        self._traces += column  # tr φφᵀ = 1
        self._filled += 1

    def _fold(self) -> None:
        for total, update in zip(self._sums, self._window(), strict=True):
            total += update
        self._coefficients[:] = 0.0  # what is left in the φ's no longer counts
        self._filled = 0
        self._folded = True

    def _window(self) -> Iterator[FloatArray]:
        """Σ_s coefficient·φ_sφ_sᵀ over the window, for M of every peer, then for N of every peer."""
        columns = np.ascontiguousarray(self._phis.T)
        known: dict[bytes, FloatArray] = {}  # peers that are labelled on the same events share N's update
        for half in 0.5 * self._coefficients:
            key = half.tobytes()
            if key not in known:
                product = (columns * half).dot(self._phis)
                # A product of matrices is symmetric only up to rounding; x + xᵀ is symmetric bit for bit.
                known[key] = product + product.T
            yield known[key]

    # --- read ----------------------------------------------------------------------------

    @property
    def empty(self) -> bool:
        """Whether nothing was ever written."""
        return self._filled == 0 and not self._folded

    def score(self, phi: FloatArray, now: float) -> tuple[FloatArray, FloatArray]:
        """φᵀM_pφ/η and φᵀN_pφ/η of every peer (eq:direct_m_score), each of shape (P,)."""
        # `dot` and not `@`: it costs a microsecond less per call, and this is the hot path.
        both = self._rows.dot(phi).reshape(-1, self.rank).dot(phi)
        alignment = self._phis.dot(phi)
        alignment *= alignment
        both += self._coefficients.dot(alignment)
        both *= self.decayed.factor(now)
        return self._apart(both)

    def readout(self, phi: FloatArray, now: float) -> FloatArray:
        """M_pφ/η of every peer (eq:sigma_readout), shape (P, rank)."""
        folded = self._sums[: self.n_peers] @ phi
        recent = (self._coefficients[: self.n_peers] * (self._phis @ phi)) @ self._phis
        total: FloatArray = (folded + recent) * self.decayed.factor(now)
        return total

    def trace(self, now: float) -> tuple[FloatArray, FloatArray]:
        """tr M_p/η and tr N_p/η: decayed sums of c and of labels, whatever the direction."""
        return self._apart(self._traces * self.decayed.factor(now))

    def matrices(self, now: float) -> tuple[FloatArray, FloatArray]:
        """M/η and N/η as (P, rank, rank), each matrix symmetric bit for bit."""
        both = self._sums + np.array(list(self._window()))
        both *= self.decayed.factor(now)
        return self._apart(both)

    def _apart(self, both: FloatArray) -> tuple[FloatArray, FloatArray]:
        """What belongs to M and to N, of the peers that there are."""
        return both[: self.n_peers], both[self._kept : self._kept + self.n_peers]

    # --- peers, merge, snapshot ----------------------------------------------------------

    def take(self, order: Sequence[int]) -> Competence:
        """A copy with peers in this order; −1 stands for a peer of which nothing is known."""
        out = Competence(len(order), self.rank, self.decayed.rate)
        kept = [*order, *[-1] * (_even(len(order)) - len(order))]
        axes = {"sums": [1], "traces": [1], "coefficients": [1]}
        out._use(self.decayed.take(kept, axes), len(order))
        out._phis[:] = self._phis
        out._filled, out._folded = self._filled, self._folded
        return out

    def scale(self, factors: FloatArray) -> None:
        """Multiply M and N of every peer by a factor, (P,)."""
        for array in self.decayed.arrays.values():
            array.reshape(2, self._kept, -1)[:, : self.n_peers] *= factors[:, None]

    def merge(self, other: Competence, now: float) -> None:
        """Add what another memory of the same peers holds at `now`."""
        self._fold()
        copy = other.take(range(other.n_peers))
        copy._fold()
        self.decayed.merge(copy.decayed, now)

    def pack(self) -> dict[str, FloatArray]:
        """Everything this object holds, bit for bit, for a snapshot."""
        packed = self.decayed.pack()
        peers = {name: packed[name][:, : self.n_peers] for name in self.decayed.arrays}
        return {
            **packed,
            **peers,
            "phis": self._phis[: self._filled],
            "folded": np.array([int(self._folded)]),
        }

    def unpack(self, packed: Mapping[str, FloatArray]) -> None:
        """Continue from packed arrays."""
        filled = len(packed["phis"])
        arrays = {name: np.zeros_like(array) for name, array in self.decayed.arrays.items()}
        arrays["sums"][:, : self.n_peers] = packed["sums"].reshape(2, -1, self.rank, self.rank)
        arrays["traces"][:, : self.n_peers] = packed["traces"].reshape(2, -1)
        # Snapshots of version 0.1 keep the filled columns of the window only.
        columns = packed["coefficients"].size // (2 * self.n_peers)
        kept = packed["coefficients"].reshape(2, self.n_peers, columns)
        arrays["coefficients"][:, : self.n_peers, :columns] = kept
        self.decayed.unpack({**packed, **arrays})
        self._phis[:filled] = packed["phis"]
        self._filled = filled
        self._folded = bool(packed.get("folded", arrays["sums"]).any())  # version 0.1 does not say


def _even(n_peers: int) -> int:
    """Peers that there is room for; a single one has no other to be equal to."""
    return n_peers + n_peers % 2 if n_peers > 1 else n_peers
