"""Panels over HTTP: ask peers one after the other, until the rest would hardly change the answer."""

from collections import OrderedDict
from typing import Any, cast

from fastapi import Request
from starlette.responses import Response

from sigma_mem.events import Answer
from sigma_mem.operations import ASK
from sigma_mem.serve.auth import principal_of
from sigma_mem.serve.calls import body_response, is_short, perform, written_response
from sigma_mem.serve.failures import RefusedError
from sigma_mem.serve.requests import AddRequest
from sigma_mem.serve.responses import result_schema
from sigma_mem.serve.routes import MemoryRoutes, Namespace, add_operation
from sigma_mem.session.panel import Panel
from sigma_mem.wire import sent_panel

_MOST = 10_000  # panels that are open; the one that was used longest ago goes first


class OpenPanels:
    """Panels that were begun here, by namespace and event."""

    def __init__(self) -> None:
        self._panels: OrderedDict[tuple[str, str], Panel] = OrderedDict()

    def keep(self, namespace: str, panel: Panel) -> None:
        """Keep a panel until too many others were used after it."""
        self._panels[namespace, panel.decision.event] = panel
        if len(self._panels) > _MOST:
            self._panels.popitem(last=False)

    def find(self, namespace: str, event: str) -> Panel:
        """A panel that was begun here; refuses where there is none."""
        key = namespace, event
        if key not in self._panels:
            raise RefusedError(
                404,
                "unknown_panel",
                f"no panel on event {event!r} is open here; begin again with after or ref",
            )
        self._panels.move_to_end(key)
        return self._panels[key]


def add_panels(routes: MemoryRoutes) -> None:
    """Add the routes of panels."""
    panels, context = OpenPanels(), routes.context

    async def ask(request: Request, namespace: str, given: dict[str, Any]) -> Response:
        panel, body = await perform(context, principal_of(request), ASK, namespace, given)
        panels.keep(namespace, panel)
        return written_response(body)

    add_operation(routes, ASK, ask)

    @routes.add(
        "POST",
        f"/{{namespace}}/{ASK.path}/add",
        ASK.role,
        "Give a peer's answer: says whom to ask next, or that it is enough.",
        responses=result_schema(ASK),
    )
    async def add(namespace: Namespace, body: AddRequest, request: Request) -> Response:
        panel, memory = panels.find(namespace, body.panel), await routes.memories.get(namespace)
        answer = cast(str | Answer | None, body.answer)  # by its validator
        run = memory.quick if is_short({"answers": {body.peer: answer}}) else memory.slow
        await run(lambda mem: panel.add(body.peer, answer))
        return body_response(sent_panel(panel))
