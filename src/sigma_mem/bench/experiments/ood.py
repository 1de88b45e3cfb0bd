"""Learn on one stream, test on another (tab:generalization_results).

What can be carried over: a learned φ, which knows no peer; and, where peers are the same, the
memory itself. Each column of the table is one combination, on the same test events.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from sigma_mem.bench.center import BenchCenter, merged
from sigma_mem.bench.league import DEFAULT, Setup, league
from sigma_mem.bench.table import LeagueTable, Rows, row_values
from sigma_mem.events import FloatArray
from sigma_mem.streams import Stream


@dataclass(frozen=True)
class TransferTable(LeagueTable):
    """Rows on the test stream for everything that was carried over."""

    title = "Learned elsewhere"

    learn: str  # name of the stream that was learned from

    def values(self) -> dict[str, Any]:
        """The object that ``bench ood --json`` prints."""
        return {
            "learn": self.learn,
            "stream": self.stream.name,
            "events": self.events,
            "peers": list(self.stream.peers),
            "carried": {what: row_values(rows) for what, rows in self.columns.items()},
            **self.center_values,
        }


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
    judged = (
        {} if center is None else {start: center.judge(test, warm=warm) for start, warm in starts.items()}
    )
    carried: dict[str, Rows] = {}
    for name, (before, after) in phis.items():
        for start, warm in starts.items():
            taught = replace(setup, warm=None if warm is None else (warm, before))
            rows: Rows = league(test, after, taught)
            if center is not None:
                rows = merged(rows, judged[start], center.places(test))
            carried[f"{name}, {start}"] = rows
    about = None if center is None else center.judged(test)
    return TransferTable(test, next(iter(phis.values()))[1], carried, about, learn.name)
