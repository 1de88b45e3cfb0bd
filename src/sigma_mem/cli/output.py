"""What commands print: one JSON object, or tables for people; and the progress of long work."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Any

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table

_BLOCKS = "▁▂▃▄▅▆▇█"
# Control characters as JSON writes them, except tab and line feed; those below 32, and 127 to 159.
_ESCAPES = {n: f"\\u{n:04x}" for n in (*range(32), *range(127, 160)) if chr(n) not in "\t\n"}


def sparkline(shares: list[float]) -> str:
    """Shares from 0 to 1 as small bars.

    >>> sparkline([0.0, 0.5, 1.0])
    '▁▅█'
    """
    return "".join(_BLOCKS[min(7, int(8 * share))] for share in shares)


def moment(seconds: float) -> str:
    """A time, in UTC."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}"


def shown(text: str) -> str:
    r"""A text without control characters: what a model wrote could otherwise command the terminal.

    >>> shown("4\x1b[2J, two\nlines")
    '4\\u001b[2J, two\nlines'
    """
    return text.translate(_ESCAPES)


class _PlainConsole(Console):
    """A console whose texts, in tables too, have no control characters but rich's own."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        """Segments of what is printed."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=shown(segment.text))


def console() -> Console:
    """Standard output; as wide as it gets in a pipe, so that no line is broken there.

    Texts are printed as they are: a peer may be called ``llama[int4]``, and a question hold ``:-)``.
    """
    plain = partial(_PlainConsole, highlight=False, markup=False, emoji=False)
    out = plain()
    return out if out.is_terminal else plain(width=200)


def print_table(
    header: Sequence[str],
    rows: Iterable[Sequence[str]],
    remarks: Iterable[str] = (),
    *,
    title: str = "",
    bold: str | None = None,
) -> None:
    """Print a title, a table and lines below it; the row that begins with `bold` stands out.

    Without a header the table has none.
    """
    out = console()
    if title:
        out.print(title, style="bold")
    table = Table(*header, box=None, pad_edge=False, show_header=bool(header))
    for row in rows:
        table.add_row(*row, style="bold" if row[0] == bold else None)
    if table.columns:
        out.print(table)
    for line in remarks:
        out.print(line)


# What a command found: the object for --json, and what people read, or what prints that.
Found = tuple[Mapping[str, Any], str | Callable[[], None]]


def print_found(found: Found, as_json: bool) -> None:
    """Print one object if JSON is wanted, else what people read."""
    values, text = found
    if as_json:
        print_json(values)
    elif isinstance(text, str):
        typer.echo(shown(text))
    else:
        text()


def print_json(values: Mapping[str, Any]) -> None:
    """Print one object on one line, so that lines of several calls can be read one by one."""
    typer.echo(shown(json.dumps(values, ensure_ascii=False, allow_nan=False)))


@contextmanager
def progress_bar() -> Iterator[Callable[[str, int, int], None]]:
    """Give a function of (what, done, total) that keeps one line on a terminal's stderr up to date."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    stderr = Console(stderr=True)
    what = TextColumn("{task.description}", markup=False)
    columns = (what, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=stderr, transient=True, disable=not stderr.is_terminal) as bar:
        task = bar.add_task("", total=None)

        def show(what: str, done: int, total: int) -> None:
            bar.update(task, description=what, completed=done, total=total)

        yield show
