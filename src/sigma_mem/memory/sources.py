"""What a source of labels is worth: how it agreed with others on the same labels.

A label counts with its source's weight in M and in N alike: weak evidence is little evidence, never evidence
of one half. A trusted source weighs 1. The correlations by which the others are weighed are decayed sums of
what events contribute, so that a late, corrected or revoked label counts in them exactly as it stands.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import cast

import numpy as np

from sigma_mem.events import FloatArray
from sigma_mem.memory.combination import ALONE, COLUMNS, Comparison, Key, Standing
from sigma_mem.memory.kernel import add_events, kernel, pair_products, scores
from sigma_mem.memory.settings import TRUSTED
from sigma_mem.memory.state import SigmaState
from sigma_mem.memory.sums import Sum, Sums

_UNKNOWN = 0.02  # what all unknown names weigh together if trusted ones are named, and silent
_NEED = 10.0  # labels by which a correlation is shrunk to 0
_EVENTS = 20.0  # after which a source is judged by its own record
_AT_FIRST = 0.1  # correlation with the agreement of peers that a new source is taken to have
_CROWD = 0.1  # of the evidence of trusted sources near a φ: what all others may give if none can check them
_FIRST = Standing(1.0, _AT_FIRST)
_NOTHING = (0.0,) * COLUMNS
_LEAST = 1e-6  # below is what rounding leaves of revoked labels


def correlation(sums: Sequence[float], need: float = _NEED) -> float:
    """Positive part of the correlation of decayed sums, shrunk to 0 as if by `need` unrelated labels."""
    n, a, b, aa, bb, ab, _ = sums
    if n < _LEAST:
        return 0.0
    spread = math.sqrt(max(aa - a * a / n, 0.0) * max(bb - b * b / n, 0.0))
    return min(1.0, max(0.0, (ab - a * b / n) / (spread + need)))


class Sources:
    """Decayed sums of how sources agreed, and what each is worth by them.

    Parameters
    ----------
    trusted : tuple of str
        Names of trusted sources; () if nobody is. Those of `TRUSTED`, the default, are trusted if they give
        labels. If they give none, it is as if nobody were.
    rate : float
        −log γ per tick.
    rank : int
        Dimension of φ.
    """

    def __init__(self, trusted: tuple[str, ...], rate: float, rank: int) -> None:
        self.trusted = trusted
        self._named = bool(trusted) and trusted != TRUSTED
        self._rate = rate
        self._rows: dict[Key, int] = {}
        # How sources labelled the same answers, and evidence near φ of those that gave the only label.
        near = kernel("near", (1,), rate, rank) if self._named else {}
        self._alone = False  # whether any did
        self._sums = Sums(0, {"compared": Sum((0, COLUMNS), rate), **near})

    # --- what a source is worth ----------------------------------------------------------

    def is_trusted(self, source: str) -> bool:
        """Whether its labels are taken as they are."""
        return source in self.trusted

    def standing(
        self, source: str, others: Iterable[str], state: SigmaState, phi: Callable[[], FloatArray]
    ) -> Standing:
        """What a source that is not trusted is worth at φ, given those that labelled the event before."""
        if not self._rows and not self._named:
            return _FIRST
        weight, now = self.weight(source, state), state.now
        if not self._named:
            pairs = {other: self._correlation(_pair(source, other), now) for other in others}
            overlap = {other: c for other, c in pairs.items() if c > 0.0}
            return Standing(weight, self.reliability(source, now), overlap)
        if self._alone:
            here = phi()
            found = scores(self._sums, "near", here, pair_products(here))
            alone = found.item() * self._sums.factor(self._rate, now).item()
            trusted = state.read(here).effective.max().item() - alone
            weight = min(weight, max(_CROWD * trusted - alone, self._unknown(state)))
        return Standing(weight)

    def weight(self, source: str, state: SigmaState) -> float:
        """What a source weighs if it gave the only label, by its agreement with trusted ones.

        A source may repeat the labels of a trusted one, and lie elsewhere. So it earns no more than is shown
        by the labels it gave before any trusted one.
        """
        if not self.trusted or source in self.trusted:
            return 1.0
        rows = [self._value((kind, source, ""), state.now) for kind in ("trusted", "first")]
        if self._named:
            return max(min(map(correlation, rows)) ** 2, self._unknown(state))
        compared = [(max(row[0], 0.0), correlation(row) ** 2) for row in rows]
        return min((n * square + _EVENTS) / (n + _EVENTS) for n, square in compared)

    def weights(self, sources: Iterable[str], state: SigmaState) -> dict[str, float]:
        """What each of these weighs: alone if trusted ones are named, else relative to the most reliable."""
        weight = {source: self.weight(source, state) for source in sources}
        if self._named:
            return weight
        reliability = {s: self.reliability(s, state.now) for s in weight if not self.is_trusted(s)}
        best = max(reliability.values(), default=1.0)
        return {s: w * (reliability.get(s, best) / best) ** 2 for s, w in weight.items()}

    def reliability(self, source: str, now: float) -> float:
        """Correlation with the agreement of peers, on events that others labelled, too."""
        sums = self._value(("agreement", source, ""), now)
        n = max(sums[-1], 0.0)
        return (n * correlation(sums, 1e-9) + _EVENTS * _AT_FIRST) / (n + _EVENTS)

    def _unknown(self, state: SigmaState) -> float:
        """What names weigh of which nothing is known: less, the more events they fill."""
        alone = max(self._value(ALONE, state.now)[-1], 0.0)
        events = state.decayed_events
        return _UNKNOWN * min(1.0, (events + 1.0) / (alone + 1.0))

    def agreement(self, source: str, now: float) -> tuple[float, float]:
        """Correlation with trusted sources, or else with the others, and on how many labels."""
        kind = "first" if self._named else "trusted"
        keys = [key for key in self._rows if key[0] in (kind, "pair") and source in key[1:]]
        compared = {key: sums for key in keys if (sums := self._value(key, now))[0] >= _LEAST}
        rows = [sums for key, sums in compared.items() if key[0] == kind] or list(compared.values())
        n = sum(row[0] for row in rows)
        return sum(row[0] * correlation(row) for row in rows) / n if n else 0.0, n

    def _correlation(self, key: Key, now: float) -> float:
        return correlation(self._value(key, now))

    def _value(self, key: Key, now: float) -> Sequence[float]:
        row = self._rows.get(key)
        if row is None:
            return _NOTHING
        values: list[float] = (self._sums["compared"][row] * self._sums.factor(self._rate, now)).tolist()
        return values

    # --- write ---------------------------------------------------------------------------

    def write(self, phi: FloatArray, before: Comparison, after: Comparison, tick: float) -> None:
        """Replace what the event at `tick` contributed."""
        weight = self._sums.weights(np.array([tick])).item()
        keys = dict.fromkeys((*before.rows, *after.rows))
        for key in keys:
            if before.rows.get(key) != after.rows.get(key):
                change = np.subtract(after.rows.get(key, _NOTHING), before.rows.get(key, _NOTHING))
                place = self._rows.setdefault(key, len(self._rows))
                self._sums.grow("compared", place + 1)[place] += change * weight
        if before.alone != after.alone:
            self._alone = True
            add_events(self._sums, "near", phi[None], np.array([[(after.alone - before.alone) * weight]]))

    # --- snapshot ------------------------------------------------------------------------

    def pack(self) -> tuple[list[Key], dict[str, FloatArray]]:
        """Everything, bit for bit: what the rows are about, and arrays."""
        return list(self._rows), self._sums.pack()

    def unpack(self, keys: Iterable[Iterable[str]], packed: Mapping[str, FloatArray]) -> None:
        """Continue from what `pack` returned."""
        self._rows = {cast(Key, tuple(key)): row for row, key in enumerate(keys)}
        self._sums.unpack(packed)
        self._alone = self._named and bool(packed["near"].any() or packed["near.filled"].any())


def _pair(a: str, b: str) -> Key:
    return ("pair", a, b) if a < b else ("pair", b, a)
