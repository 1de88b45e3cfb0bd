"""Competence M_p and evidence N_p of every peer: write, score, readout.

    M_p = η Σ_s γ^(now − s) c_{p,s} φ_sφ_sᵀ          (eq:sigma_mem_update)
    N_p = η Σ_s γ^(now − s) 1[p labelled at s] φ_sφ_sᵀ

The last few events are kept in a window in parallel form, where a score needs only (φ·φ_s)² and a write
only stores a row. A full window is folded into the matrices by one matrix product. Nothing is approximated,
and a write costs less than touching P matrices on every event.

The same events can be kept at several decay rates at once: they share the window's φ's, and one product
reads all rates. What is named M and N is kept at the first rate.

BLAS computes the last rows of a product, if they are not four, in another way than the others. Peers with
equal records would get unequal last bits, and a tie would be none. So an odd pool at an odd number of rates
ends with an empty peer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from sigma_mem.events import FloatArray
from sigma_mem.memory.decayed import DecayedSum
from sigma_mem.memory.symmetric import pack_symmetric, packed_size, pair_products, unpack_symmetric

WINDOW = 64  # events; folding costs O(P r²) per event at any size, a longer window slows reads


class Competence:
    """M and N of n_peers peers in rank dimensions, without the factor η (the state applies it).

    Parameters
    ----------
    rates : float
        −log γ of M and N, and of others like them that forget faster.

    Examples
    --------
    >>> import numpy as np
    >>> k = Competence(2, 3, 0.0)
    >>> k.write(np.array([1.0, 0, 0]), c=np.array([1.0, -1.0]), seen=np.array([1.0, 1.0]), tick=1)
    >>> score, evidence = k.score(np.array([0.6, 0.8, 0]), now=1)
    >>> score.round(2).tolist(), evidence.round(2).tolist()
    ([0.36, -0.36], [0.36, 0.36])
    """

    def __init__(self, n_peers: int, rank: int, *rates: float) -> None:
        self.n_peers, self.rank, self._kept = n_peers, rank, _room(n_peers, len(rates))
        # The leading axis runs over rates, the second one is 0 for M and 1 for N, the third runs over peers.
        self._shape = (len(rates), 2, self._kept)
        sums = np.zeros((*self._shape, packed_size(rank)))  # packed: a read goes through half the memory
        coefficients = np.zeros((WINDOW, *self._shape))  # an event is a row: written at once
        traces = np.zeros(self._shape[1:])  # of the sums at the first rate, window included
        self.by_rate = [
            DecayedSum(rate, {"packed": sums[i], "coefficients": coefficients[:, i].transpose(1, 2, 0)})
            for i, rate in enumerate(rates)
        ]
        self.decayed = self.by_rate[0]
        self.decayed.arrays["traces"] = traces
        self._sums = sums.reshape(-1, packed_size(rank))  # a row for every matrix
        self._coefficients = coefficients.reshape(WINDOW, -1)  # and a column
        # Without the empty peer:
        self._events, self._traces = coefficients[..., :n_peers], traces[:, :n_peers]
        self._both = np.zeros((2, n_peers))  # what is being written
        self._phis = np.zeros((WINDOW, rank))
        self._filled = 0
        self._folded = False  # whether the matrices hold anything

    # --- write ---------------------------------------------------------------------------

    def write(self, phi: FloatArray, c: FloatArray, seen: FloatArray, tick: float) -> None:
        """Add γ^(now − tick)·c_p·φφᵀ to M_p and γ^(now − tick)·seen_p·φφᵀ to N_p.

        A correction passes differences: c = c_new − c_old, seen = seen_new − seen_old.
        """
        if self._filled == WINDOW:
            self._fold()
        self._phis[self._filled] = phi
        both = self._both
        both[0], both[1] = c, seen
        event = self._events[self._filled]
        for i, decayed in enumerate(self.by_rate):
            event[i] = both * decayed.weight(tick)
        self._traces += event[0]  # tr φφᵀ = 1
        self._filled += 1

    def _fold(self) -> None:
        for total, update in zip(self._sums, self._window(len(self._sums)), strict=True):
            total += update
        self._coefficients[:] = 0.0  # what is left in the φ's no longer counts
        self._filled = 0
        self._folded = True

    def _window(self, matrices: int) -> list[FloatArray]:
        """Σ_s coefficient·φ_sφ_sᵀ over the window, packed, of the first so many matrices.

        A product of matrices is symmetric only up to rounding; packed, an entry and its mirror are one.
        """
        columns = np.ascontiguousarray(self._phis.T)
        scaled = np.empty_like(columns)  # used again: a new one for every product takes twice as long
        known: dict[bytes, FloatArray] = {}  # peers that are labelled on the same events share N's update
        out = []
        for row in np.ascontiguousarray(self._coefficients[:, :matrices].T):
            key = row.tobytes()
            if key not in known:
                known[key] = pack_symmetric(np.multiply(columns, row, out=scaled).dot(self._phis))
            out.append(known[key])
        return out

    # --- read ----------------------------------------------------------------------------

    @property
    def empty(self) -> bool:
        """Whether nothing was ever written."""
        return self._filled == 0 and not self._folded

    def score(
        self, phi: FloatArray, now: float, pairs: FloatArray | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """φᵀM_pφ/η and φᵀN_pφ/η of every peer (eq:direct_m_score), each of shape (P,)."""
        score, evidence = self.undecayed_scores(phi, pairs)[0] * self.decayed.factor(now)
        return score, evidence

    def undecayed_scores(self, phi: FloatArray, pairs: FloatArray | None = None) -> FloatArray:
        """Score and evidence at every rate, (rates, 2, P), each to be multiplied by its rate's `factor`.

        Parameters
        ----------
        pairs : array, optional
            `pair_products` of φ, for who reads several of these at one φ.
        """
        # `dot` and not `@`: it costs a microsecond less per call, and this is the hot path.
        found = self._sums.dot(pair_products(phi) if pairs is None else pairs)
        alignment = self._phis.dot(phi)
        alignment *= alignment
        found += alignment.dot(self._coefficients)
        by_rate: FloatArray = found.reshape(self._shape)[:, :, : self.n_peers]
        return by_rate

    def readout(self, phi: FloatArray, now: float) -> FloatArray:
        """M_pφ/η of every peer (eq:sigma_readout), shape (P, rank)."""
        folded = unpack_symmetric(self._sums[: self.n_peers], self.rank) @ phi
        recent = (self._coefficients[:, : self.n_peers].T * (self._phis @ phi)) @ self._phis
        total: FloatArray = (folded + recent) * self.decayed.factor(now)
        return total

    def trace(self, now: float) -> tuple[FloatArray, FloatArray]:
        """tr M_p/η and tr N_p/η: decayed sums of c and of labels, whatever the direction."""
        total, labels = self._traces * self.decayed.factor(now)
        return total, labels

    def labels(self, now: float) -> FloatArray:
        """tr N_p/η, the second of `trace`, (P,)."""
        labels: FloatArray = self._traces[1] * self.decayed.factor(now)
        return labels

    def matrices(self, now: float) -> tuple[FloatArray, FloatArray]:
        """M/η and N/η as (P, rank, rank), each matrix symmetric bit for bit."""
        first = 2 * self._kept
        packed = self._sums[:first] + np.array(self._window(first))
        both = unpack_symmetric(packed, self.rank)
        both *= self.decayed.factor(now)
        return both[: self.n_peers], both[self._kept : self._kept + self.n_peers]

    # --- peers, merge, snapshot ----------------------------------------------------------

    def take(self, order: Sequence[int]) -> Competence:
        """A copy with peers in this order; −1 stands for a peer of which nothing is known."""
        out = Competence(len(order), self.rank, *[decayed.rate for decayed in self.by_rate])
        kept = [*order, *[-1] * (out._kept - len(order))]
        axes = {"packed": [1], "traces": [1], "coefficients": [1]}
        for mine, copied in zip(self.by_rate, out.by_rate, strict=True):
            copied.unpack(mine.take(kept, axes).pack())
        out._phis[:] = self._phis
        out._filled, out._folded = self._filled, self._folded
        return out

    def scale(self, factors: FloatArray) -> None:
        """Multiply M and N of every peer by a factor, (P,)."""
        for decayed in self.by_rate:
            for array in decayed.arrays.values():
                array.reshape(2, self._kept, -1)[:, : self.n_peers] *= factors[:, None]

    def merge(self, other: Competence, now: float) -> None:
        """Add what another memory of the same peers holds at `now`."""
        self._fold()
        copy = other.take(range(other.n_peers))
        copy._fold()
        for mine, others in zip(self.by_rate, copy.by_rate, strict=True):
            mine.merge(others, now)

    def pack(self) -> dict[str, FloatArray]:
        """Everything this object holds, bit for bit, for a snapshot."""
        out = {"phis": self._phis[: self._filled], "folded": np.array([int(self._folded)])}
        for i, decayed in enumerate(self.by_rate):
            packed = decayed.pack()
            packed.update({name: array[:, : self.n_peers] for name, array in decayed.arrays.items()})
            out.update({_packed_name(i, name): array for name, array in packed.items()})
        return out

    def unpack(self, packed: Mapping[str, FloatArray]) -> None:
        """Continue from packed arrays."""
        for i, decayed in enumerate(self.by_rate):
            arrays = {name: np.zeros_like(array) for name, array in decayed.arrays.items()}
            for name, array in arrays.items():
                array[:, : self.n_peers] = packed[_packed_name(i, name)]
            decayed.unpack({**arrays, "anchor": packed[_packed_name(i, "anchor")]})
        self._filled = len(packed["phis"])
        self._phis[: self._filled] = packed["phis"]
        self._folded = bool(packed["folded"].any())


def _packed_name(rate: int, name: str) -> str:
    """Arrays of the first rate have plain names, those of a further one its number in front."""
    return name if rate == 0 else f"{rate}.{name}"


def _room(n_peers: int, n_rates: int) -> int:
    """Peers that there is room for; a single one has no other to be equal to."""
    return n_peers + n_peers * n_rates % 2 if n_peers > 1 else n_peers
