"""Every mechanism on the clean stream, overall and by domain (tab:coordination_roles and its appendix)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sigma_mem.bench.experiments.cf import table_of
from sigma_mem.bench.league import Row, Say, league
from sigma_mem.events import FloatArray
from sigma_mem.memory import Settings
from sigma_mem.streams import Stream

__all__ = ["MechanismTable", "mechanism_table"]


@dataclass(frozen=True, slots=True)
class MechanismTable:
    """Rows on one stream, and the domain of every event."""

    stream: str
    peers: tuple[str, ...]
    domains: tuple[str, ...]  # of every event
    rows: Mapping[str, Row]

    def by_domain(self, row: Row) -> dict[str, float]:
        """Accuracy of a row in every domain."""
        names = np.asarray(self.domains, dtype=str)
        return {str(name): float(row.correct[names == name].mean()) for name in np.unique(names)}

    def values(self) -> dict[str, Any]:
        """The object that ``bench mechanisms --json`` prints."""
        rows = table_of(self.rows)
        for name, row in self.rows.items():
            rows[name]["domains"] = {d: round(a, 6) for d, a in self.by_domain(row).items()}
        return {
            "stream": self.stream,
            "events": len(self.domains),
            "peers": list(self.peers),
            "mechanisms": rows,
        }


def mechanism_table(
    stream: Stream,
    phis: FloatArray,
    settings: Settings | None = None,
    *,
    rivals: Sequence[str] = (),
    warm: tuple[Stream, FloatArray] | None = None,
    seed: int = 0,
    say: Say | None = None,
) -> MechanismTable:
    """Play the stream as it is."""
    rows = league(stream, phis, settings, rivals=rivals, warm=warm, seed=seed, say=say)
    return MechanismTable(stream.name, stream.peers, tuple(event.domain for event in stream), rows)
