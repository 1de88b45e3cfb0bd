"""Reads that the dashboard needs beside the memory's API: trends, the relation, events without labels."""

from collections.abc import Sequence
from itertools import islice
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Query
from pydantic import BaseModel, Field
from starlette.responses import Response

from sigma_mem.events import Decision
from sigma_mem.memory.rates import wilson
from sigma_mem.serve.auth import needs
from sigma_mem.serve.calls import body_response
from sigma_mem.serve.context import Context
from sigma_mem.serve.responses import DecisionsBody
from sigma_mem.serve.routes import Namespace
from sigma_mem.session import SigmaMem
from sigma_mem.session.history import History
from sigma_mem.session.trust import votes_together

_LINES = 20_000  # of the ledger's end that a trend is made of
_LOOKED_AT = 2_000  # decisions among which those without labels are sought
_Z = 1.96  # half-width of a 95 % interval, in standard deviations


class TrendPoint(BaseModel):
    """How often a peer was right up to an event."""

    place: int = Field(description="Which of the events this is, from 0.")
    event: str
    time: float
    right: float = Field(description="Share right over the last labels.")
    interval: list[float] = Field(description="Where that lies with 95 %.")


class TrendsBody(BaseModel):
    """Trends by peer, over the events at the ledger's end."""

    events: int
    window: int
    trends: dict[str, list[TrendPoint]]


class RelationBody(BaseModel):
    """G: who is right and wrong together, relative to the rest."""

    peers: list[str]
    matrix: list[list[float]] = Field(description="Symmetric, with diagonal 1.")
    votes: float = Field(description="Independent votes, if the chosen peers gave one answer.")


def view_routes(context: Context) -> APIRouter:
    """The dashboard's reads."""
    routes = APIRouter(prefix="/v1/memory", tags=["memory"])
    memories = context.memories

    @routes.get(
        "/{namespace}/trend",
        summary="How often each peer was right over its last labels, event by event.",
        response_model=TrendsBody,
    )
    @needs("read")
    async def trend(
        namespace: Namespace,
        window: Annotated[int, Query(ge=1, le=10_000, description="Labels that a point counts.")] = 50,
        points: Annotated[int, Query(ge=2, le=1000, description="Of each peer, at most.")] = 120,
    ) -> Response:
        memory = await memories.get(namespace)
        return body_response(await memory.slow(lambda mem: trends(mem, window, points)))

    @routes.get("/{namespace}/relation", summary="G, as a matrix.", response_model=RelationBody)
    @needs("read")
    async def relation(
        namespace: Namespace,
        peer: Annotated[list[str] | None, Query(description="Peers that agree; all by default.")] = None,
    ) -> Response:
        memory = await memories.get(namespace)
        return body_response(await memory.slow(lambda mem: relation_body(mem, peer)))

    @routes.get(
        "/{namespace}/unlabelled",
        summary="The last decision of each of the newest events without a label.",
        response_model=DecisionsBody,
    )
    @needs("read")
    async def unlabelled(
        namespace: Namespace,
        last: Annotated[int, Query(ge=1, le=200, description="At most this many.")] = 20,
    ) -> Response:
        memory = await memories.get(namespace)
        found = await memory.slow(lambda mem: without_labels(mem, last))
        return body_response({"decisions": found})

    return routes


def trends(mem: SigmaMem, window: int, points: int) -> dict[str, Any]:
    """The record of every peer as a curve with its interval."""
    histories = mem.history(lines=_LINES)
    times = {entry.event: entry.time for history in histories.values() for entry in history}
    places = {event: place for place, event in enumerate(sorted(times, key=times.__getitem__))}
    curves = {peer: _curve(history, places, window, points) for peer, history in histories.items()}
    return {"events": len(places), "window": window, "trends": curves}


def _curve(history: History, places: dict[str, int], window: int, points: int) -> list[dict[str, Any]]:
    events = [entry.event for entry in history if entry.label is not None]
    if not events:
        return []
    times, right = history.rolling(window)
    share = np.clip(right, 0.0, 1.0)
    low, high = wilson(share, np.minimum(np.arange(1, len(events) + 1), window).astype(np.float64), _Z)
    shown = np.unique(np.linspace(0, len(events) - 1, min(points, len(events))).round().astype(int))
    return [
        {
            "place": places[events[i]],
            "event": events[i],
            "time": float(times[i]),
            "right": float(share[i]),
            "interval": [float(low[i]), float(high[i])],
        }
        for i in shown.tolist()
    ]


def relation_body(mem: SigmaMem, agreeing: Sequence[str] | None = None) -> dict[str, Any]:
    """G, and what an agreement of these peers, all by default, is worth."""
    with mem.journal as fold:
        state = fold.state
        votes = votes_together(state, state.moment(mem.clock()), agreeing)
        return {"peers": state.peers, "matrix": state.G.tolist(), "votes": votes}


def without_labels(mem: SigmaMem, last: int) -> list[Decision]:
    """Decisions on events that nobody labelled, newest first, one an event."""
    found: dict[str, Decision] = {}
    for decision in islice(mem.decisions(), _LOOKED_AT):
        if not decision.labels:
            found.setdefault(decision.event, decision)
        if len(found) == last:
            break
    return list(found.values())
