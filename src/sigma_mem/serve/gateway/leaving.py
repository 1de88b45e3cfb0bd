"""A client that goes away: nobody waits for its answer, so nobody goes on paying for it."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from sigma_mem.serve.failures import RefusedError


async def while_wanted(request: Request, answer: Coroutine[Any, Any, Response]) -> Response:
    """The response to a request whose body was read; cancelled as soon as the client has gone.

    The 499 that is raised then reaches the log and the metrics only.
    """
    working = asyncio.current_task()
    left = False

    async def watch() -> None:
        nonlocal left
        await request.receive()  # after the body, only that the client left
        left = True
        if working is not None:
            working.cancel()

    watching = asyncio.create_task(watch())
    try:
        return await answer
    except asyncio.CancelledError:
        if not left:  # the server stops
            raise
        if working is not None:
            working.uncancel()
        raise RefusedError(499, "client_left", "the client went away before the answer") from None
    finally:
        watching.cancel()
