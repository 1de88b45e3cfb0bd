"""Counterfactual attack: accuracy and selection counts at every ratio (tab:CF_results, tab:CF_Mresults)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sigma_lab.attack import counterfactual
from sigma_lab.bench.center import BenchCenter, merged
from sigma_lab.bench.league import DEFAULT, Setup, league
from sigma_lab.bench.table import LeagueTable, Rows, row_values, standing
from sigma_mem.events import FloatArray
from sigma_mem.streams import Stream


@dataclass(frozen=True, kw_only=True)
class CounterfactualTable(LeagueTable):
    """Rows of every ratio, on the same events in the same order."""

    title = "Counterfactual attack"
    shows_selections = True

    ratios: Mapping[float, Rows]
    seed: int = 0

    def results(self) -> dict[str, Any]:
        """Rows by ratio."""
        return {"ratios": {f"{ratio:g}": row_values(rows, self.seed) for ratio, rows in self.ratios.items()}}

    def remarks(self) -> list[str]:
        """How to read the cells, and who is on top."""
        note = "± is half the 95 % bootstrap interval over events; n/n/… are selections in the peers' order."
        top = [f"- {name}: {standing(rows)}." for name, rows in self.columns.items()]
        return [note, "", *top, *super().remarks()]

    def figures(self, folder: Path) -> list[Path]:
        """Accuracy bars, and the stream itself."""
        return self.accuracy_figures(folder)


def counterfactual_table(
    stream: Stream,
    phis: FloatArray,
    ratios: Sequence[float] = (0.0, 0.5, 0.7, 0.9),
    setup: Setup = DEFAULT,
    center: BenchCenter | None = None,
) -> CounterfactualTable:
    """Attack a clean stream at every ratio and play it. φ depends on the questions only, so it stays.

    With a center its rows come behind the others, and all are about the events that it judges.
    """
    warm = None if setup.warm is None else setup.warm[0]
    found: dict[float, Rows] = {}
    columns: dict[str, Rows] = {}
    for ratio in ratios:
        name, attacked = f"CF@{100 * ratio:g}", counterfactual(stream, ratio, seed=setup.seed)
        rows = league(attacked, phis, setup.part(name))
        if center is not None:
            rows = merged(rows, center.judge(attacked, warm=warm), center.places(stream))
        found[ratio] = columns[name] = rows
    judged = None if center is None else center.judged(stream)
    return CounterfactualTable(
        stream=stream, judged=judged, phis=phis, columns=columns, ratios=found, seed=setup.seed
    )
