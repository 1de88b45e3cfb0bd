"""What people read as a table: plain values, a pandas frame, one line, or HTML in a notebook."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from html import escape
from typing import Any, TypeVar

from sigma_mem.extras import require

T = TypeVar("T")
_SHOWN = 50  # rows in a notebook
_TIMES = ("time", "last")  # columns of seconds since 1970


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
        """A pandas DataFrame of the rows; MissingExtraError if pandas is not installed."""
        pandas = require("pandas", extra="pandas", purpose="to_pandas()")
        frame = pandas.DataFrame(self.rows())
        for name in set(_TIMES) & set(frame):
            frame[name] = pandas.to_datetime(frame[name], unit="s", utc=True)
        return frame

    def _repr_html_(self) -> str:
        rows = self.rows()
        return html_table(self._caption(), rows[:_SHOWN], len(rows))

    def _caption(self) -> str:
        return repr(self)


class Rows(list[T], Tabular):
    """Values of a dataclass, each a row."""

    def rows(self) -> list[dict[str, Any]]:
        """The fields of each."""
        return [asdict(each) for each in self]  # type: ignore[call-overload]

    def to_dict(self) -> dict[str, Any]:
        """Under "rows", the fields of each."""
        return {"rows": self.rows()}

    def _caption(self) -> str:
        return "" if self else "none"


def html_table(caption: str, rows: Sequence[Mapping[str, Any]], total: int) -> str:
    """Rows as an HTML table, every text escaped.

    >>> html_table("one", [{"answer": "<b>", "p": 0.25}], 1)
    '<table><caption>one</caption><tr><th>answer</th><th>p</th></tr><tr><td>&lt;b&gt;</td><td>0.25</td></tr></table>'
    """
    head = "".join(f"<th>{escape(str(name))}</th>" for name in (rows[0] if rows else ()))
    lines = ["".join(f"<td>{escape(_cell(*cell))}</td>" for cell in row.items()) for row in rows]
    if total > len(rows):
        lines.append(f"<td>… {total - len(rows)} more</td>")
    body = "".join(f"<tr>{line}</tr>" for line in (head, *lines) if line)
    return f"<table><caption>{escape(caption)}</caption>{body}</table>"


def _cell(name: str, value: Any) -> str:
    if value is None:
        return "—"
    if name in _TIMES:
        return f"{datetime.fromtimestamp(value, UTC):%Y-%m-%d %H:%M:%S}"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
