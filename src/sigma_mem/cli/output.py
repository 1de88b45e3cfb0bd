"""What commands print: one JSON object, or tables for people; and the progress of long work."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text


def console() -> Console:
    """Standard output; as wide as it gets in a pipe, so that no line is broken there."""
    out = Console(highlight=False)
    return out if out.is_terminal else Console(highlight=False, width=200)


def print_table(
    header: Sequence[str], rows: Iterable[Sequence[str | Text]], remarks: Iterable[str] = ()
) -> None:
    """Print a table, and lines below it; without a header it has none."""
    table = Table(*header, box=None, pad_edge=False, show_header=bool(header))
    for row in rows:
        table.add_row(*row)
    out = console()
    out.print(table)
    for line in remarks:
        out.print(line, markup=False)


def print_json(values: Mapping[str, Any]) -> None:
    """Print one object on one line, so that lines of several calls can be read one by one."""
    typer.echo(json.dumps(values, ensure_ascii=False, allow_nan=False))


@contextmanager
def progress_bar() -> Iterator[Callable[[str, int, int], None]]:
    """Give a function of (what, done, total) that keeps one line on a terminal's stderr up to date."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    stderr = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=stderr, transient=True, disable=not stderr.is_terminal) as bar:
        task = bar.add_task("", total=None)

        def show(what: str, done: int, total: int) -> None:
            bar.update(task, description=what, completed=done, total=total)

        yield show
