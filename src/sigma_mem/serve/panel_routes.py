"""Panels over HTTP: ask peers one after the other, until the rest would hardly change the answer."""

from collections import OrderedDict
from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from sigma_mem.serve import schemas
from sigma_mem.serve.auth import needs
from sigma_mem.serve.bodies import body_response, decision_body, plain
from sigma_mem.serve.context import Context
from sigma_mem.serve.failures import RefusedError
from sigma_mem.serve.look_routes import Namespace
from sigma_mem.session.panel import Panel

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


def add_panels(routes: APIRouter, context: Context) -> None:
    """Add the routes of panels."""
    memories, panels = context.memories, OpenPanels()

    @routes.post(
        "/{namespace}/ask",
        summary="Begin to ask peers one after the other: says whom to ask first.",
        response_model=schemas.PanelBody,
    )
    @needs("write")
    async def ask(namespace: Namespace, body: schemas.AskRequest) -> Response:
        memory = await memories.get(namespace)
        options = body.options(*schemas.AskRequest.OPTIONS)
        panel = await memory.quick(lambda mem: mem.ask(body.question, **options))
        panels.keep(namespace, panel)
        return body_response(panel_body(panel))

    @routes.post(
        "/{namespace}/ask/add",
        summary="Give a peer's answer: says whom to ask next, or that it is enough.",
        response_model=schemas.PanelBody,
    )
    @needs("write")
    async def add(namespace: Namespace, body: schemas.AddRequest) -> Response:
        memory = await memories.get(namespace)
        panel = panels.find(namespace, body.panel)
        run = memory.quick if body.is_quick else memory.slow
        await run(lambda mem: panel.add(body.peer, schemas.sent_answer(body.answer)))
        return body_response(panel_body(panel))


def panel_body(panel: Panel) -> dict[str, Any]:
    """Where a panel stands."""
    return {
        "panel": panel.decision.event,
        "next": panel.next,
        "change": panel.change,
        "answers": plain(panel.answers),
        "decision": decision_body(panel.decision),
    }
