"""Every mechanism on the clean stream, overall and by domain (tab:coordination_roles and its appendix)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sigma_mem.bench.center import JudgedEvents
from sigma_mem.bench.experiments.cf import CounterfactualTable, table_of
from sigma_mem.bench.league import Row
from sigma_mem.streams import Stream

__all__ = ["MechanismTable", "mechanism_table"]


@dataclass(frozen=True, slots=True)
class MechanismTable:
    """Rows on one stream, and the domain of every event."""

    stream: str
    peers: tuple[str, ...]
    domains: tuple[str, ...]  # of every event
    rows: Mapping[str, Row]
    judged: JudgedEvents | None = None  # by a center; then all rows are about these events

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
            **({} if self.judged is None else {"center": self.judged.values()}),
        }


def mechanism_table(
    stream: Stream, clean: CounterfactualTable, places: Sequence[int] | None = None
) -> MechanismTable:
    """The CF@0 column of a table, by domain.

    Parameters
    ----------
    clean : CounterfactualTable
        With the ratio 0, on the events at ``places`` (all of the stream by default).
    """
    at = range(len(stream)) if places is None else places
    domains = tuple(stream.events[t].domain for t in at)
    return MechanismTable(stream.name, stream.peers, domains, clean.ratios[0.0], clean.judged)
