"""Learn on one stream, test on another (tab:generalization_results).

What can be carried over: a learned φ, which knows no peer; and, where peers are the same, the
memory itself. Each column of the table is one combination, on the same test events.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from sigma_lab.bench.center import BenchCenter, merged
from sigma_lab.bench.league import DEFAULT, Setup, league
from sigma_lab.bench.table import LeagueTable, Rows, row_values
from sigma_mem.events import FloatArray
from sigma_mem.streams import Stream


@dataclass(frozen=True, kw_only=True)
class TransferTable(LeagueTable):
    """Rows on the test stream for everything that was carried over."""

    title = "Learned elsewhere"

    learn: str  # name of the stream that was learned from

    def results(self) -> dict[str, Any]:
        """Rows by what was carried over."""
        return {"carried": {what: row_values(rows) for what, rows in self.columns.items()}}

    def values(self) -> dict[str, Any]:
        """The stream that was learned from comes first."""
        return {"learn": self.learn, **super().values()}


def transfer_table(
    learn: Stream,
    test: Stream,
    phis: Mapping[str, tuple[FloatArray, FloatArray]],
    setup: Setup = DEFAULT,
    center: BenchCenter | None = None,
) -> TransferTable:
    """Play the test stream cold, and (with the same peers) behind the one that was learned from.

    Parameters
    ----------
    phis : mapping from a φ's name to (φ of the learning stream, φ of the test stream)
    center
        Its rows use the φ of its own steering, so they are the same beside every φ.
    """
    starts: dict[str, Stream | None] = {"empty memory": None}
    if learn.peers == test.peers:
        starts[f"memory of {learn.name}"] = learn
    by_center = {} if center is None else {start: center.judge(test, warm=w) for start, w in starts.items()}
    carried: dict[str, Rows] = {}
    for name, (before, after) in phis.items():
        for start, warm in starts.items():
            rows = league(test, after, replace(setup, warm=None if warm is None else (warm, before)))
            if center is not None:
                rows = merged(rows, by_center[start], center.places(test))
            carried[f"{name}, {start}"] = rows
    judged = None if center is None else center.judged(test)
    first = next(iter(phis.values()))[1]
    return TransferTable(stream=test, judged=judged, phis=first, columns=carried, learn=learn.name)
