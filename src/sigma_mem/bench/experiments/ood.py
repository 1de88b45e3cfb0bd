"""Learn on one stream, test on another (tab:generalization_results).

What can be carried over: a learned φ, which knows no peer; and, where peers are the same, the
memory itself. Each row of the table is one combination, on the same test events.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sigma_mem.bench.center import BenchCenter, JudgedEvents, merged
from sigma_mem.bench.experiments.cf import table_of
from sigma_mem.bench.league import Row, Say, league
from sigma_mem.events import FloatArray
from sigma_mem.memory import Settings
from sigma_mem.streams import Stream

__all__ = ["TransferTable", "transfer_table"]

_EMPTY = "empty memory"


@dataclass(frozen=True, slots=True)
class TransferTable:
    """Rows on the test stream for everything that was carried over."""

    learn: str
    test: str
    peers: tuple[str, ...]
    events: int
    carried: Mapping[str, Mapping[str, Row]]
    judged: JudgedEvents | None = None  # by a center; then all rows are about these events

    def values(self) -> dict[str, Any]:
        """The object that ``bench ood --json`` prints."""
        return {
            "learn": self.learn,
            "stream": self.test,
            "events": self.events,
            "peers": list(self.peers),
            "carried": {what: table_of(rows) for what, rows in self.carried.items()},
            **({} if self.judged is None else {"center": self.judged.values()}),
        }


def transfer_table(
    learn: Stream,
    test: Stream,
    phis: Mapping[str, tuple[FloatArray, FloatArray]],
    settings: Settings | None = None,
    *,
    seed: int = 0,
    center: BenchCenter | None = None,
    say: Say | None = None,
) -> TransferTable:
    """Play the test stream cold, and (with the same peers) behind the one that was learned from.

    Parameters
    ----------
    phis : mapping from a φ's name to (φ of the learning stream, φ of the test stream)
    center
        Its rows use the φ of its own steering, so they are the same beside every φ.
    """
    carried: dict[str, dict[str, Row]] = {}
    same = learn.peers == test.peers
    for name, (before, after) in phis.items():
        carried[f"{name}, {_EMPTY}"] = league(test, after, settings, seed=seed, say=say)
        if same:
            carried[f"{name}, memory of {learn.name}"] = league(
                test, after, settings, warm=(learn, before), seed=seed, say=say
            )
    if center is None:
        return TransferTable(learn.name, test.name, test.peers, len(test), carried)
    cold = center.judge(test)
    warm = center.judge(test, warm=learn) if same else {}
    beside = {
        what: merged(rows, cold if what.endswith(_EMPTY) else warm, center.places(test))
        for what, rows in carried.items()
    }
    about = center.judged(test)
    return TransferTable(learn.name, test.name, test.peers, about.events, beside, about)
