"""What people look at as a table: plain values, a pandas frame, one line, or HTML in a notebook."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from sigma_mem.extras import require

_SHOWN = 50  # rows in a notebook


class Tabular:
    """Something with rows. What models wrote is escaped before it becomes HTML."""

    __slots__ = ()

    @abstractmethod
    def rows(self) -> list[dict[str, Any]]:
        """Every row as a mapping of plain values, with the same keys."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values, which JSON can hold."""

    def to_pandas(self) -> Any:
        """A pandas DataFrame of the rows; MissingExtraError where pandas is not installed."""
        pandas = require("pandas", extra="pandas", purpose="to_pandas()")
        return pandas.DataFrame(self.rows())

    def _repr_html_(self) -> str:
        rows = self.rows()
        return html_table(repr(self), rows[:_SHOWN], len(rows))


def html_table(caption: str, rows: Sequence[Mapping[str, Any]], total: int) -> str:
    """Rows as an HTML table, every text escaped.

    >>> html_table("one", [{"answer": "<b>", "p": 0.25}], 1)
    '<table><caption>one</caption><tr><th>answer</th><th>p</th></tr><tr><td>&lt;b&gt;</td><td>0.25</td></tr></table>'
    """
    head = "".join(f"<th>{escape(str(name))}</th>" for name in (rows[0] if rows else ()))
    lines = ["".join(f"<td>{escape(_cell(value))}</td>" for value in row.values()) for row in rows]
    if total > len(rows):
        lines.append(f"<td>… {total - len(rows)} more</td>")
    body = "".join(f"<tr>{line}</tr>" for line in (head, *lines) if line)
    return f"<table><caption>{escape(caption)}</caption>{body}</table>"


def _cell(value: Any) -> str:
    if value is None:
        return "—"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
