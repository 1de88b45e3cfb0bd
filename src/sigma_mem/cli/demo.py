"""``sigma-mem demo``: a real little multi-agent system, offline."""

import sys
import time
from contextlib import AbstractContextManager, ExitStack, suppress
from pathlib import Path
from typing import Annotated

from typer import Option

from sigma_mem.cli.options import Json
from sigma_mem.cli.output import console, print_json
from sigma_mem.errors import InputError
from sigma_mem.extras import require

_TASKS, _SERVED_TASKS = 1500, 600  # a task is four requests to the service
_STORY = "#/default/trust/topic=arithmetic"  # the view in which an agent goes bad
_WATCHED = 85.0  # tasks per second that a person can follow


def demo(
    tasks: Annotated[
        int | None, Option(help=f"How many tasks. Default {_TASKS}, with --serve {_SERVED_TASKS}.", min=2)
    ] = None,
    seed: Annotated[int, Option(help="The same seed gives the same run.")] = 0,
    speed: Annotated[
        float | None,
        Option(
            help=f"Tasks per second; 0 for no waiting. Default {_WATCHED:.0f} on a terminal, else 0.", min=0
        ),
    ] = None,
    memory: Annotated[
        Path | None, Option(help="Keep the memory in this new file, to inspect it afterwards.")
    ] = None,
    serve: Annotated[
        bool, Option("--serve", help="Keep the memory in a service, with its dashboard (extra serve).")
    ] = False,
    port: Annotated[int, Option(help="Port of the service; 0 takes a free one.", min=0, max=65535)] = 0,
    quiet: Annotated[bool, Option("--quiet", "-q", help="Only the table at the end.")] = False,
    json: Json = False,
) -> None:
    """Watch a memory learn which of six agents to trust, and move away from one that goes bad.

    Six small programs answer generated tasks: arithmetic, code, reading, calendar.

    Halfway the calculator is updated to a version with a real bug.

    With --serve the memory is in a service, and its dashboard shows the run.

    Examples:
    sigma-mem demo

    sigma-mem demo --serve

    sigma-mem demo --seed 7 --memory demo.db && sigma-mem inspect --memory demo.db
    """
    from sigma_mem.demo.run import UNGRADED, run
    from sigma_mem.demo.screen import dashboard_address, result, table

    if memory is not None and memory.exists():
        raise InputError(
            f"got --memory {memory}, which exists; expected a new file: the demo starts from nothing"
        )
    out = console()
    shown = None if quiet or json else out
    if speed is None and out.is_terminal and shown:
        speed = _WATCHED
    with ExitStack() as stack:
        service = stack.enter_context(_service(memory, port)) if serve else None
        if service and shown:
            shown.print(f"dashboard: {dashboard_address(service)}{_STORY}", soft_wrap=True)
        story = run(tasks or (_SERVED_TASKS if serve else _TASKS), seed, speed, memory, shown, service)
        if json:
            print_json(result(story, seed))
        else:
            out.print(table(story))
            if memory is not None:
                out.print(f"memory: {memory} (inspect it with sigma-mem inspect --memory {memory})")
        if service and shown and sys.stdin.isatty() and out.is_terminal:
            out.print(
                f"{UNGRADED} tasks wait for your grades in the inbox of {dashboard_address(service)} "
                "The service stays until Ctrl-C."
            )
            with suppress(KeyboardInterrupt):
                while True:
                    time.sleep(1.0)


def _service(memory: Path | None, port: int) -> AbstractContextManager[str]:
    from sigma_mem.demo.run import running_service

    for package in ("fastapi", "uvicorn", "aiohttp", "prometheus_client", "httpx2"):
        require(package, extra="serve", purpose="demo --serve")
    return running_service(memory, port)
