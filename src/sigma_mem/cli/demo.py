"""``sigma-mem demo``: a real little multi-agent system, offline."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from sigma_mem.cli.options import Json, check_folder
from sigma_mem.cli.output import console, print_json
from sigma_mem.errors import InputError, MissingExtraError

_PICTURES = (".png", ".svg", ".pdf")
_WATCHED = 85.0  # tasks per second that a person can follow


def demo(
    tasks: Annotated[int, typer.Option(help="How many tasks.", min=2)] = 1500,
    seed: Annotated[int, typer.Option(help="The same seed gives the same run.")] = 0,
    speed: Annotated[
        float | None,
        typer.Option(
            help=f"Tasks per second; 0 for no waiting. Default {_WATCHED:.0f} on a terminal, else 0.", min=0
        ),
    ] = None,
    picture: Annotated[Path, typer.Option(help="Where to draw the run.")] = Path("sigma-mem-demo.png"),
    memory: Annotated[
        Path | None, typer.Option(help="Keep the memory in this new file, to inspect it afterwards.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only the table at the end.")] = False,
    json: Json = False,
) -> None:
    """Watch six real agents, one of which goes bad, and the memory at work.

    They answer generated tasks (arithmetic, code, reading, calendar), every answer is really worked out
    and really graded. Halfway the calculator is updated to a version with a real bug.

    Examples:
    sigma-mem demo

    sigma-mem demo --seed 7 --memory demo.db && sigma-mem inspect --memory demo.db
    """
    from sigma_mem.demo.picture import draw_picture
    from sigma_mem.demo.run import run
    from sigma_mem.demo.screen import result, table

    if picture.suffix not in _PICTURES:
        raise InputError(f"got --picture {picture}; expected a name that ends in {', '.join(_PICTURES)}")
    check_folder("--picture", picture)
    if memory is not None and memory.exists():
        raise InputError(
            f"got --memory {memory}, which exists; expected a new file: the demo starts from nothing"
        )
    out = console()
    shown = None if quiet or json else out
    if speed is None and out.is_terminal and shown:
        speed = _WATCHED
    story = run(tasks, seed, speed, memory, shown)
    drawn = None
    try:
        draw_picture(story, picture)
        drawn = str(picture)
    except MissingExtraError as error:  # say so and go on
        print(f"sigma-mem: {error}", file=sys.stderr)
    if json:
        print_json({**result(story, seed), "picture": drawn})
        return
    out.print(table(story))
    if drawn is not None:
        out.print(f"picture: {drawn}", markup=False)
    if memory is not None:
        out.print(f"memory: {memory} (look into it with sigma-mem inspect --memory {memory})", markup=False)
