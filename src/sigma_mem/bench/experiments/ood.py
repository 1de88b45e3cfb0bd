"""Learn on one stream, test on another (tab:generalization_results).

What can be carried over: a learned φ, which knows no peer; and, where peers are the same, the
memory itself. Each row of the table is one combination, on the same test events.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sigma_mem.bench.experiments.cf import table_of
from sigma_mem.bench.league import Row, Say, league
from sigma_mem.events import FloatArray
from sigma_mem.memory import Settings
from sigma_mem.streams import Stream

__all__ = ["TransferTable", "transfer_table"]


@dataclass(frozen=True, slots=True)
class TransferTable:
    """Rows on the test stream for everything that was carried over."""

    learn: str
    test: str
    peers: tuple[str, ...]
    events: int
    carried: Mapping[str, Mapping[str, Row]]

    def values(self) -> dict[str, Any]:
        """The object that ``bench ood --json`` prints."""
        return {
            "learn": self.learn,
            "stream": self.test,
            "events": self.events,
            "peers": list(self.peers),
            "carried": {what: table_of(rows) for what, rows in self.carried.items()},
        }


def transfer_table(
    learn: Stream,
    test: Stream,
    phis: Mapping[str, tuple[FloatArray, FloatArray]],
    settings: Settings | None = None,
    *,
    seed: int = 0,
    say: Say | None = None,
) -> TransferTable:
    """Play the test stream cold, and (with the same peers) behind the one that was learned from.

    Parameters
    ----------
    phis : mapping from a φ's name to (φ of the learning stream, φ of the test stream)
    """
    carried: dict[str, dict[str, Row]] = {}
    for name, (before, after) in phis.items():
        carried[f"{name}, empty memory"] = league(test, after, settings, seed=seed, say=say)
        if learn.peers == test.peers:
            carried[f"{name}, memory of {learn.name}"] = league(
                test, after, settings, warm=(learn, before), seed=seed, say=say
            )
    return TransferTable(learn.name, test.name, test.peers, len(test), carried)
