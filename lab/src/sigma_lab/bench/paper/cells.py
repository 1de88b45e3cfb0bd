"""A table whose every cell holds what was found here and what the paper prints in its place."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sigma_lab.bench.row import TableRow
from sigma_lab.bench.table import selection_counts


@dataclass(frozen=True, slots=True)
class Cell:
    """Ours and the paper's: two numbers in percent, or two texts."""

    ours: float | str | None
    paper: float | str | None = None
    best: bool = False  # the best of its group

    def text(self) -> str:
        """``61.20 (63.87)``: ours, and in brackets the paper's where it has one."""
        own = _shown(self.ours)
        return f"{own} ({_shown(self.paper)})" if self.paper is not None else own


@dataclass(frozen=True, slots=True)
class PaperTable:
    """One table or figure of the paper."""

    key: str  # file name and key in the JSON object
    title: str
    label: str  # of the paper's LaTeX source; empty where it has no such table
    header: Sequence[str]
    rows: Sequence[tuple[str, Sequence[Cell]]]
    notes: Sequence[str] = field(default_factory=tuple)

    def grid(self) -> tuple[list[str], list[list[str]]]:
        """Header and rows as texts."""
        return list(self.header), [[name, *(cell.text() for cell in cells)] for name, cells in self.rows]

    def values(self) -> dict[str, Any]:
        """The plain object that JSON keeps."""
        rows = [
            {"row": name, "cells": [{"ours": cell.ours, "paper": cell.paper} for cell in cells]}
            for name, cells in self.rows
        ]
        return {"title": self.title, "label": self.label, "columns": list(self.header[1:]), "rows": rows}


def accuracy_cell(row: TableRow | None, paper: float | None = None) -> Cell:
    """A row's accuracy."""
    return Cell(None if row is None else 100 * row.accuracy, paper)


def selection_cell(row: TableRow | None, paper: Iterable[int] | None = None) -> Cell:
    """How often a row chose each peer."""
    ours = None if row is None else selection_counts(row)
    return Cell(ours, None if paper is None else "/".join(map(str, paper)))


def best_in(cells: Sequence[Cell]) -> list[Cell]:
    """The cells, with the highest number marked.

    >>> [cell.best for cell in best_in([Cell(1.0), Cell(2.0), Cell("3/4"), Cell(None)])]
    [False, True, False, False]
    """
    top = max((cell.ours for cell in cells if isinstance(cell.ours, float)), default=None)
    return [Cell(c.ours, c.paper, best=top is not None and c.ours == top) for c in cells]


def best_of(rows: Sequence[Sequence[Cell]]) -> list[list[Cell]]:
    """Rows of equal length, with the highest number of every column marked."""
    columns = [best_in(column) for column in zip(*rows, strict=True)]
    return [list(row) for row in zip(*columns, strict=True)]


def _shown(value: float | str | None) -> str:
    if value is None:
        return "–"
    return value if isinstance(value, str) else f"{value:.2f}"
