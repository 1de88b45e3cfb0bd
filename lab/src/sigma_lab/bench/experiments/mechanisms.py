"""Every mechanism on the clean stream, overall and by domain (tab:coordination_roles and its appendix)."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sigma_lab.bench.experiments.cf import CounterfactualTable
from sigma_lab.bench.league import reference_row
from sigma_lab.bench.row import TableRow
from sigma_lab.bench.table import Grid, LeagueTable, row_intervals, row_values, selection_counts, standing


@dataclass(frozen=True, kw_only=True)
class MechanismTable(LeagueTable):
    """Rows on one stream, the only column, by the domain of every event."""

    title = "Mechanisms"

    domains: tuple[str, ...]  # of every event

    def by_domain(self, row: TableRow) -> dict[str, float]:
        """Accuracy of a row in every domain."""
        names = np.asarray(self.domains, dtype=str)
        return {str(name): float(row.correct[names == name].mean()) for name in np.unique(names)}

    def results(self) -> dict[str, Any]:
        """Every row, with its accuracy by domain."""
        values = row_values(self.columns["clean"])
        for name, row in self.columns["clean"].items():
            values[name]["domains"] = {d: round(a, 6) for d, a in self.by_domain(row).items()}
        return {"mechanisms": values}

    def grid(self) -> Grid:
        """A line per mechanism: accuracy, its difference to the reference row, and every domain."""
        rows = self.columns["clean"]
        found, reference = row_intervals(rows), reference_row(rows)
        header = ["mechanism", "accuracy", "95 % interval", f"− {reference}", "95 % interval"]
        header += ["selections"] if self.shows_selections else []
        body = []
        for name, row in rows.items():
            i = found[name]
            line = [name, f"{i.mean:.2%}", f"{i.low:.2%} … {i.high:.2%}", f"{100 * i.difference:+.2f}"]
            line.append(f"{100 * i.difference_low:+.2f} … {100 * i.difference_high:+.2f}")
            line += [selection_counts(row)] if self.shows_selections else []
            body.append([*line, *(f"{a:.1%}" for a in self.by_domain(row).values())])
        return [*header, *(str(name) for name in np.unique(self.domains))], body

    def remarks(self) -> list[str]:
        """Who is on top."""
        return [standing(self.columns["clean"]) + ".", *super().remarks()]

    def figures(self, folder: Path) -> list[Path]:
        """Accuracy bars, and the stream itself."""
        return self.accuracy_figures(folder)


def mechanism_table(clean: CounterfactualTable, places: Sequence[int] | None = None) -> MechanismTable:
    """The CF@0 column of a table, by domain.

    Parameters
    ----------
    clean : CounterfactualTable
        With the ratio 0, on the events at ``places`` (all of the stream by default).
    """
    at = range(len(clean.stream)) if places is None else places
    domains = tuple(clean.stream.events[t].domain for t in at)
    columns = {"clean": clean.ratios[0.0]}
    return MechanismTable(
        stream=clean.stream, judged=clean.judged, phis=clean.phis, columns=columns, domains=domains
    )
