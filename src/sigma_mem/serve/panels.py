"""Panels over HTTP: ask peers one after the other, until the rest would hardly change the answer."""

from collections import OrderedDict, defaultdict
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

_MOST = 1_000  # panels of one namespace that are open; the one that was used longest ago goes first
_MOST_CHARACTERS = 8_000_000  # of their questions and answers


class OpenPanels:
    """Panels that were begun here, by namespace and event; no namespace pushes out another's."""

    def __init__(self) -> None:
        self._panels: dict[str, OrderedDict[str, Panel]] = defaultdict(OrderedDict)

    def keep(self, namespace: str, panel: Panel) -> None:
        """Keep a panel until too many others of its namespace, or too long ones, were used after it."""
        panels = self._panels[namespace]
        panels[panel.decision.event] = panel
        characters = sum(map(_length, panels.values()))
        while len(panels) > _MOST or (characters > _MOST_CHARACTERS and len(panels) > 1):
            characters -= _length(panels.popitem(last=False)[1])

    def find(self, namespace: str, event: str) -> Panel:
        """A panel that was begun here; refuses if there is none."""
        if event not in self._panels.get(namespace, ()):
            raise RefusedError(
                404,
                "unknown_panel",
                f"no panel on event {event!r} is open here; begin again with after or ref",
            )
        self._panels[namespace].move_to_end(event)
        return self._panels[namespace][event]


def _length(panel: Panel) -> int:
    question = len(panel.decision.question or "")
    return question + sum(len(answer.text or "") for answer in panel.answers.values())


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
