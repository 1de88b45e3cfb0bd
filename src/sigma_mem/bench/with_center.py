"""A center's rows beside those of every other mechanism, on the events that the center judged.

A forward pass is expensive, so a center may judge a part of a stream. All memories are written from the whole
of it; the table is then about the judged events for all rows alike, and every difference is paired.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sigma_mem.bench.bootstrap import intervals
from sigma_mem.bench.center_rows import ROWS, Scorer, center_rows, judged_events
from sigma_mem.bench.league import ORACLES
from sigma_mem.bench.row import TableRow as Row
from sigma_mem.errors import InputError
from sigma_mem.events import FloatArray
from sigma_mem.memory import Settings
from sigma_mem.streams import Stream

__all__ = ["NO_SIGMA", "BenchCenter", "Judged", "better_than_sigma", "merged"]

NO_SIGMA = "there is no row sigma without a steering; train one with  sigma-mem train steering"


@dataclass(frozen=True, slots=True)
class Judged:
    """What a table with a center is about: ``events`` of the ``of`` events that were played."""

    center: str
    steering: str | None
    events: int
    of: int

    def values(self) -> dict[str, Any]:
        """The object under ``center`` in ``--json``."""
        return {"name": self.center, "steering": self.steering, "judged": self.events, "played": self.of}

    @property
    def note(self) -> str:
        """One sentence for below the table."""
        how = "unsteered" if self.steering is None else f"steered by {self.steering}"
        return (
            f"center {self.center}, {how}: {self.events} of {self.of} events judged; every row is about "
            "these events, every memory went through all"
        )


@dataclass(frozen=True, slots=True)
class BenchCenter:
    """A center that is ready to judge events of a stream.

    Attributes
    ----------
    name, steering
        As the user gave them.
    scorer
        Utilities of (question, answer) pairs under readouts, here or on a cluster.
    phi : mapping from question to (rank,) array
        φ by the encoder that the steering was learned with.
    fast : (rank,) array or None
        w of the fast read.
    gamma
        Of the memory that the steering was learned with.
    rows
        The rows that can be made: without a steering there is nothing to compare.
    after, limit, seed
        Which events are judged; see `judged_events`.
    bases
        Utilities of the unsteered judge, kept between attack ratios, pools and masks.
    """

    name: str
    steering: str | None
    scorer: Scorer
    phi: Mapping[str, FloatArray]
    fast: FloatArray | None
    gamma: float
    rows: Sequence[str] = ROWS
    after: int = 0
    limit: int | None = None
    seed: int = 0
    bases: dict[tuple[str, str], float] = field(default_factory=dict)

    def places(self, stream: Stream) -> list[int]:
        """The events that are judged, and that the table is about."""
        found = judged_events(stream, after=self.after, limit=self.limit, seed=self.seed)
        if not found:
            raise InputError(
                f"no event is left to judge behind the first {self.after} of {len(stream)}; give a smaller "
                "--judge-after or a longer stream"
            )
        return found

    def judged(self, stream: Stream) -> Judged:
        """What to say of it."""
        return Judged(self.name, self.steering, len(self.places(stream)), len(stream))

    def judge(
        self,
        stream: Stream,
        *,
        warm: Stream | None = None,
        shown: NDArray[np.bool_] | None = None,
        rows: Sequence[str] | None = None,
    ) -> dict[str, Row]:
        """The center's rows on a stream as it stands under attack.

        Parameters
        ----------
        warm
            A stream of the same peers that the memory is written from first.
        shown : bool array (T,)
            Events whose labels the memory is told; the grading knows all.
        rows
            Only these, where they can be made.
        """
        events = () if warm is None else warm.events
        whole = Stream(stream.name, stream.peers, (*events, *stream.events))
        if shown is not None:
            shown = np.concatenate((np.ones(len(events), dtype=bool), shown))
        return center_rows(
            whole,
            np.stack([self.phi[event.question] for event in whole]),
            [place + len(events) for place in self.places(stream)],
            self.scorer,
            fast=self.fast,
            settings=Settings(gamma=self.gamma),
            bases=self.bases,
            rows=[name for name in self.rows if rows is None or name in rows],
            shown=shown,
        )


def merged(rows: Mapping[str, Row], judged: Mapping[str, Row], places: Sequence[int]) -> dict[str, Row]:
    """All rows on the judged events: those of the whole stream cut down to ``places``, then the center's."""
    return {**{name: row.at(places) for name, row in rows.items()}, **judged}


def better_than_sigma(rows: Mapping[str, Row], seed: int = 0) -> str:
    """One plain sentence: which rows that use no oracle are above ``sigma``, with paired intervals."""
    if "sigma" not in rows:
        return NO_SIGMA
    found = intervals({name: row.correct for name, row in rows.items()}, "sigma", seed=seed)
    above = [name for name in rows if name not in ORACLES and found[name].difference > 0]
    if not above:
        return f"better than sigma, {rows['sigma'].accuracy:.2%}: none"
    above.sort(key=lambda name: -found[name].difference)
    said = (
        f"{name} {100 * found[name].difference:+.2f} points "
        f"({100 * found[name].difference_low:+.2f} … {100 * found[name].difference_high:+.2f})"
        for name in above
    )
    return f"better than sigma, {rows['sigma'].accuracy:.2%}: {', '.join(said)}"
