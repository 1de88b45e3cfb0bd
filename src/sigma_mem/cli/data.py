"""``sigma-mem data``: from a benchmark's release files to streams."""

import typer

from sigma_mem.cli import data_answer

app = typer.Typer(no_args_is_help=True, add_completion=False, help="From raw questions to graded streams.")
data_answer.add_answer(app)
