"""Panels over HTTP: ask peers one after the other, until the rest would hardly change the answer."""

from collections import OrderedDict
from typing import Any

from starlette.responses import Response

from sigma_mem.serve.bodies import body_response, decision_body, plain
from sigma_mem.serve.failures import RefusedError
from sigma_mem.serve.routes import MemoryRoutes, Namespace
from sigma_mem.serve.schemas import requests, responses
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


def add_panels(routes: MemoryRoutes) -> None:
    """Add the routes of panels."""
    panels = OpenPanels()

    @routes.post(
        "ask",
        "write",
        "Begin to ask peers one after the other: says whom to ask first.",
        responses.PanelBody,
    )
    async def ask(namespace: Namespace, body: requests.AskRequest) -> Response:
        options = body.options(*requests.AskRequest.OPTIONS)
        panel = await routes.quick(namespace, lambda mem: mem.ask(body.question, **options))
        panels.keep(namespace, panel)
        return body_response(panel_body(panel))

    @routes.post(
        "ask/add",
        "write",
        "Give a peer's answer: says whom to ask next, or that it is enough.",
        responses.PanelBody,
    )
    async def add(namespace: Namespace, body: requests.AddRequest) -> Response:
        panel = panels.find(namespace, body.panel)
        run = routes.quick if body.is_quick else routes.slow
        await run(namespace, lambda mem: panel.add(body.peer, requests.sent_answer(body.answer)))
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
