"""A client that goes away: nobody waits for its answer, so nobody goes on paying for it."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from sigma_mem.serve.failures import RefusedError


async def while_wanted(request: Request, answer: Coroutine[Any, Any, Response]) -> Response:
    """The response, whose body was read; cancelled as soon as the client has gone.

    The 499 that is raised then reaches the log and the metrics only.
    """
    working = asyncio.create_task(answer)
    leaving = asyncio.ensure_future(request.receive())  # after the body, only that the client left
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise RefusedError(499, "client_left", "the client went away before the answer")
        return working.result()
    finally:
        leaving.cancel()
        working.cancel()
