"""A center's rows beside the others: ``bench cf|peers|mechanisms|ood --center NAME [--steering CKPT]``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from sigma_mem.bench.experiments.cf import CounterfactualTable, with_rows
from sigma_mem.bench.league import Say
from sigma_mem.streams import Stream

__all__ = ["After", "CenterChoice", "CenterName", "Judged", "Ray", "Steering"]

CenterName = Annotated[
    str | None, typer.Option("--center", help="Also a center's rows: smollm2, a folder or a hub name.")
]
Steering = Annotated[Path | None, typer.Option(help="A checkpoint of  sigma-mem train steering.")]
Judged = Annotated[int | None, typer.Option(help="At most this many events that the center judges.")]
After = Annotated[int, typer.Option(help="The center judges events from this place on only.")]
Ray = Annotated[str | None, typer.Option(help="Spread the judging over the Ray cluster at this address.")]


@dataclass(frozen=True, slots=True)
class CenterChoice:
    """Which center judges, steered by what, how many events, and where."""

    center: str | None
    steering: Path | None
    judged: int | None
    after: int
    ray: str | None

    @property
    def wanted(self) -> bool:
        """Whether any center takes part."""
        return self.center is not None or self.steering is not None

    def beside(self, table: CounterfactualTable, stream: Stream, say: Say) -> CounterfactualTable:
        """The table with the center's rows, on the events that it judged; unchanged without a center."""
        if not self.wanted:
            return table
        from sigma_mem.bench.center_table import center_table

        rows = center_table(
            stream,
            center=self.center,
            steering=self.steering,
            ratios=list(table.ratios),
            after=self.after,
            limit=self.judged,
            seed=table.seed,
            ray=self.ray,
            say=say,
        )
        return with_rows(table, rows, self.places(stream, table.seed))

    def places(self, stream: Stream, seed: int) -> list[int]:
        """The events that the table is about: all, or those that the center judges."""
        if not self.wanted:
            return list(range(len(stream)))
        from sigma_mem.bench.center_rows import judged_events

        return judged_events(stream, after=self.after, limit=self.judged, seed=seed)
