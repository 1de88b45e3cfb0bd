"""The dashboard's page, public because there is no data in its files, and the reads that it needs."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import islice
from os import getpid
from socket import gethostname
from typing import Annotated, Any, NamedTuple, TypeVar

import numpy as np
from fastapi import APIRouter, Query
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.staticfiles import StaticFiles

from sigma_mem.admin.check import advice
from sigma_mem.admin.evaluation import report as switch_report
from sigma_mem.errors import InputError, StoreError
from sigma_mem.events import Decision
from sigma_mem.ledger.event import EventState, events_of
from sigma_mem.ledger.lines import (
    DecisionLine,
    Line,
    PeerLine,
    PriceLine,
    RenameLine,
    ResetLine,
    RevokeLine,
    is_decision,
)
from sigma_mem.ledger.pool import PoolChanges
from sigma_mem.ledger.records import pages_back
from sigma_mem.memory.rates import wilson
from sigma_mem.serve.alarms import Alarm
from sigma_mem.serve.calls import Context, body_response
from sigma_mem.serve.guard import Access, needs, principal_of
from sigma_mem.serve.keys import EVERYWHERE
from sigma_mem.serve.routes import MemoryRoutes, Namespace
from sigma_mem.serve.telemetry import Minute, quantile
from sigma_mem.session import SigmaMem
from sigma_mem.session.history import History
from sigma_mem.session.trust import votes_together
from sigma_mem.streams.pool import measured_pool

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)


class Page(StaticFiles):
    """The files of the page, each under the policy."""

    access = Access("nobody")

    def file_response(self, *args: Any, **options: Any) -> Response:
        """A file as a response."""
        response = super().file_response(*args, **options)
        response.headers["content-security-policy"] = POLICY
        return response


def page_routes() -> APIRouter:
    """``/dashboard/`` and the files it loads."""

    @needs("nobody")
    async def to_page(request: Request) -> Response:
        return RedirectResponse("/dashboard/", 307)

    routes = APIRouter()
    routes.add_route("/", to_page, include_in_schema=False)
    routes.add_route("/dashboard", to_page, include_in_schema=False)
    routes.mount("/dashboard", Page(packages=[("sigma_mem.serve.dashboard", "static")], html=True))
    return routes


# ---- reads: overview, trends, the relation, what to label next


T = TypeVar("T")
_LINES = 20_000  # of the ledger's end that a view is made of
_LOOKED_AT = 2_000  # decisions among which those without labels are sought
_BINS = 48  # of an overview's time axis
LEAST = 5  # labels, below which nothing is said of a peer


class TrendPoint(BaseModel):
    """How often a peer was right up to an event."""

    event: str
    time: float
    right: float = Field(description="Share right over the last labels.")
    interval: list[float] = Field(description="Where that lies with 95 %.")


class TrendsBody(BaseModel):
    """Trends by peer, over the events at the ledger's end."""

    events: int
    window: int
    span: list[float] | None = Field(description="Times of the first and the last event.")
    trends: dict[str, list[TrendPoint]]


class ReportBody(BaseModel):
    """Requests as they were served, and had the memory chosen."""

    compared: list[dict[str, Any]] = Field(description="All requests, then every topic; none if none served.")


class RelationBody(BaseModel):
    """G: who is right and wrong together, relative to the rest; and who errs with whom."""

    peers: list[str]
    matrix: list[list[float]] = Field(description="Symmetric, with diagonal 1.")
    together: list[list[int]] = Field(description="Recent events with a label of both peers.")
    votes: float | None = Field(
        description=f"Independent votes, if the chosen peers gave one answer; null if two of them have fewer "
        f"than {LEAST} labels together."
    )
    errors: dict[str, Any] = Field(
        description="The pool as `sigma-mem pool` reports it, from the last events with a label of every "
        "answer; without any only events, peers, correlation and deceiving."
    )


class UnlabelledBody(BaseModel):
    """The last decision of events without a label."""

    weight: float = Field(description="What a label by this key weighs, from 0 to 1.")
    moves: dict[str, dict[str, float]] = Field(
        description="By event and peer: how far a label would move p̂, in root mean square."
    )
    decisions: list[dict[str, Any]]


class OverviewBody(BaseModel):
    """How a memory does, and the service for keys that may read everywhere."""

    now: float
    since: float
    memory: dict[str, Any] | None = Field(description="null while the store is away.")
    service: dict[str, Any] | None


def view_routes(context: Context) -> APIRouter:
    """The dashboard's reads."""
    routes, memories = MemoryRoutes(context), context.memories

    summary = "Decisions, labels and spending over time, what changed, and how the service does."

    @routes.add("GET", "/{namespace}/overview", "read", summary, OverviewBody)
    async def overview(
        namespace: Namespace,
        request: Request,
        hours: Annotated[float, Query(gt=0.0, le=8760.0, description="How far back to look.")] = 24.0,
    ) -> Response:
        memory, everywhere = await memories.get(namespace), principal_of(request).may("read", EVERYWHERE)
        now = memory.mem.clock()
        since, alarms = now - 3600.0 * hours, [*context.alarms.past, *context.alarms.ringing]
        mine = [each for each in alarms if each.namespace == namespace or everywhere]
        try:
            found = await memory.slow(lambda mem: memory_overview(mem, since, now))
            found["budget"] = context.config.alarms.daily_budget
            down = [
                f"never chosen: {each.about}" for each in context.alarms.ringing if each.kind == "circuit"
            ]
            found["advice"] = [each.text for each in found["advice"] if each.about not in down]
        except StoreError:
            found = None
        service = service_overview(context, mine, since, now) if everywhere else None
        return body_response({"now": now, "since": since, "memory": found, "service": service})

    summary = "How often each peer was right over its last labels, event by event."

    @routes.add("GET", "/{namespace}/trend", "read", summary, TrendsBody)
    async def trend(
        namespace: Namespace,
        window: Annotated[int, Query(ge=1, le=10_000, description="Labels that a point counts.")] = 50,
        points: Annotated[int, Query(ge=2, le=1000, description="Of each peer, at most.")] = 120,
        topic: Annotated[str | None, Query(max_length=256, description="Only on this topic.")] = None,
    ) -> Response:
        memory = await memories.get(namespace)
        return body_response(await memory.slow(lambda mem: trends(mem, window, points, topic)))

    summary = (
        "Had the memory chosen: how many requests would have gone elsewhere, how often right, at what cost."
    )

    @routes.add("GET", "/{namespace}/report", "read", summary, ReportBody)
    async def report(
        namespace: Namespace,
        hours: Annotated[float, Query(gt=0.0, le=87600.0, description="How far back to look.")] = 168.0,
    ) -> Response:
        memory = await memories.get(namespace)
        since = memory.mem.clock() - 3600.0 * hours
        try:
            return body_response(await memory.slow(lambda mem: switch_report(mem, since=since).to_dict()))
        except InputError:  # nobody served in this time
            return body_response({"compared": []})

    summary = "G, as a matrix, and who errs with whom."

    @routes.add("GET", "/{namespace}/relation", "read", summary, RelationBody)
    async def relation(
        namespace: Namespace,
        peer: Annotated[list[str] | None, Query(description="Peers that agree; all by default.")] = None,
    ) -> Response:
        memory = await memories.get(namespace)
        return body_response(await memory.slow(lambda mem: relation_body(mem, peer)))

    summary = "The last decision of events without a label, the label that would teach most first."

    @routes.add("GET", "/{namespace}/unlabelled", "read", summary, UnlabelledBody)
    async def unlabelled(
        namespace: Namespace,
        request: Request,
        last: Annotated[int, Query(ge=1, le=200, description="At most this many.")] = 20,
        newest: Annotated[bool, Query(description="Newest first instead.")] = False,
        topic: Annotated[str | None, Query(max_length=256, description="Only on this topic.")] = None,
        below: Annotated[float | None, Query(ge=0.0, le=1.0, description="Only less confident ones.")] = None,
    ) -> Response:
        memory, source = await memories.get(namespace), principal_of(request).name
        wanted = {"topic": topic, "below": below}
        return body_response(
            await memory.slow(lambda mem: without_labels(mem, last, source, newest, **wanted))
        )

    return routes.router


# --- overview ----------------------------------------------------------------------------


class Past(NamedTuple):
    """The end of a ledger, by their current names: its lines and its events."""

    lines: list[Line[Any]]
    events: dict[str, EventState]


def _past(mem: SigmaMem, since: float = 0.0) -> Past:
    with mem.journal as fold:
        end, revoked, pool = fold.seq, set(fold.revoked), PoolChanges(fold.pool)
    lines: list[Line[Any]] = []
    for page in pages_back(mem.journal.ledger.lines, end):
        lines += (line for line in reversed(page) if getattr(line.body, "time", since) >= since)
        if getattr(page[0].body, "time", since) < since or len(lines) >= _LINES:
            break
    kept = [pool.translated(line) for line in reversed(lines)]
    return Past(kept, events_of(kept, revoked))


class PastOutcome(NamedTuple):
    """How an event ended: when it began, who served, the label of that, and what its calls cost."""

    time: float
    peer: str | None
    label: float | None
    costs: Mapping[str, float]


def _outcomes(past: Past) -> list[PastOutcome]:
    newest: dict[str, Line[DecisionLine]] = {line.event: line for line in past.lines if is_decision(line)}
    found = []
    for id, event in past.events.items():
        line = newest[id]
        peer = event.served.get(line.id, line.body.chosen)
        label = event.labels().c.get(peer) if peer is not None else None
        costs = {name: charge.counted for name, charge in event.charges.items()}
        found.append(PastOutcome(event.first.time, peer, label, costs))
    return found


def memory_overview(mem: SigmaMem, since: float, now: float) -> dict[str, Any]:
    """What was decided since then, how it ended, what it cost, and what changed."""
    past, drift, spent = _past(mem, since), mem.drift(), mem.spent()
    today = mem.spent(since=now, until=now).total
    outcomes = _outcomes(past)
    begin = max(since, min((each.time for each in outcomes), default=since))
    topics: Counter[str] = Counter(topic for event in past.events.values() for topic in event.topics)
    changes = list(_changes(past.lines))
    for found in drift:
        before, after = ([o for o in outcomes if (o.time >= found.time) is late] for late in (False, True))
        told = {"kind": "drift", "about": found.peer, "text": str(found)}
        served = {"before": _tally(before, found.peer), "after": _tally(after, found.peer)}
        tasks = {"tasks_before": len(before), "tasks_after": len(after)}
        changes.append({**asdict(found), **told, **served, **tasks})
    return {
        "events": mem.events,
        "begin": begin,
        "cut": len(past.lines) >= _LINES,
        "total": _tally(outcomes),
        "bins": [
            {"time": time, **_tally(group)} for time, group in _binned(outcomes, begin, now, lambda o: o.time)
        ],
        "peers": {peer: _tally(outcomes, peer) for peer in mem.peers},
        "topics": dict(topics.most_common(50)),
        "spent": {
            "total": spent.total,
            "today": today,
            "by_day": {day: sum(by.values()) for day, by in list(spent.by_day.items())[-31:]},
        },
        "changes": sorted(changes, key=lambda each: -each["time"])[:100],
        "advice": advice(mem),
    }


def _tally(outcomes: Sequence[PastOutcome], peer: str | None = None) -> dict[str, Any]:
    """How many there are, how they ended, paid calls and costs; of one peer, what it served and was paid."""
    labels = [each.label for each in outcomes if peer is None or each.peer == peer]
    known = [label for label in labels if label is not None]
    paid = [amount for each in outcomes for name, amount in each.costs.items() if peer in (None, name)]
    return {
        "events": len(labels),
        "right": sum(label > 0.0 for label in known),
        "wrong": sum(label < 0.0 for label in known),
        "paid": len(paid),
        "cost": math.fsum(paid),
    }


def _binned(
    several: Sequence[T], begin: float, end: float, time_of: Callable[[T], float], least: float = 1.0
) -> list[tuple[float, list[T]]]:
    """Equal parts of a time axis, each of so many seconds at least, and what fell into each."""
    parts = max(1, min(_BINS, int((end - begin) / least)))
    width = max(end - begin, least) / parts
    groups: list[list[T]] = [[] for _ in range(parts)]
    for each in several:
        groups[min(max(int((time_of(each) - begin) / width), 0), parts - 1)].append(each)
    return [(begin + place * width, group) for place, group in enumerate(groups)]


def _changes(lines: Iterable[Line[Any]]) -> Iterator[dict[str, Any]]:
    """Lines that are not about an event, in words; prices that were set together as one."""
    priced: dict[float, list[str]] = {}
    for line in lines:
        match line.body:
            case PeerLine(peer=about, joins=joins):
                text = f"{about} {'joined' if joins else 'left'} the pool"
            case ResetLine(peer=about, keep=keep):
                text = f"{about} was updated under its name: {keep:.0%} of its record stays"
            case RenameLine(peer=about, becomes=becomes):
                text = f"{about} is now {becomes}"
            case RevokeLine(of=about):
                text = f"feedback of {about} " + ("was revoked" if line.kind == "revoke" else "counts again")
            case PriceLine(peer=about, time=time):
                priced.setdefault(time // 60.0, []).append(about)
                continue
            case _:
                continue
        yield {"time": line.body.time, "kind": line.kind, "about": about, "text": text}
    for minute, peers in priced.items():
        about = ", ".join(dict.fromkeys(peers))
        yield {"time": 60.0 * minute, "kind": "price", "about": about, "text": f"prices were set: {about}"}


def service_overview(context: Context, alarms: Sequence[Alarm], since: float, now: float) -> dict[str, Any]:
    """Requests, errors, latency and upstreams since then, as far back as minutes are kept.

    They are those of this process, which is named if others may serve the same memories.
    """
    metrics = context.metrics
    minutes = [minute for minute in metrics.minutes if minute.time >= since - 60.0]
    begin = max(since, metrics.started)
    calls = sum((minute.calls for minute in minutes), Counter())
    open_since = {each.about: each.time for each in alarms if each.kind == "circuit" and each.ended is None}
    return {
        "process": f"{gethostname()}/{getpid()}" if context.memories.store.shared else None,
        "started": metrics.started,
        "begin": begin,
        **_requests(minutes),
        "bins": [
            {"time": time, **_requests(group)}
            for time, group in _binned(minutes, begin // 60.0 * 60.0, now, lambda minute: minute.time, 60.0)
        ],
        "upstreams": {
            each.name: {
                **{
                    outcome: calls[each.name, outcome]
                    for outcome in ("answered", "refused", "limited", "failed")
                },
                **_latency([minute.answers[each.name] for minute in minutes if each.name in minute.answers]),
                "open_since": open_since.get(each.name),
            }
            for each in context.config.upstreams
        },
        "away": any(memory.is_away for memory in context.memories.opened()),
        "waiting": sum(len(memory.unrecorded) for memory in context.memories.opened()),
        "alarms": [asdict(each) for each in alarms if each.ended is None or each.ended >= since],
    }


def _requests(minutes: Sequence[Minute]) -> dict[str, Any]:
    return {
        **{name: sum(getattr(each, name) for each in minutes) for name in ("requests", "refused", "errors")},
        **_latency([each.seconds for each in minutes]),
    }


def _latency(counted: list[list[int]]) -> dict[str, float | None]:
    return {"median": quantile(counted, 0.5), "p95": quantile(counted, 0.95)}


# --- trends and relation -----------------------------------------------------------------


def trends(mem: SigmaMem, window: int, points: int, topic: str | None = None) -> dict[str, Any]:
    """The record of every peer, on one topic or on all tasks, as a curve with its interval."""
    histories = mem.history(lines=_LINES)
    if topic is not None:
        on = {id for id, event in _past(mem).events.items() if topic in event.topics}
        histories = {
            peer: History(peer, [entry for entry in history if entry.event in on])
            for peer, history in histories.items()
        }
    times = {entry.event: entry.time for history in histories.values() for entry in history}
    curves = {peer: _curve(history, window, points) for peer, history in histories.items()}
    span = [min(times.values()), max(times.values())] if times else None
    return {"events": len(times), "window": window, "span": span, "trends": curves}


def _curve(history: History, window: int, points: int) -> list[dict[str, Any]]:
    events = [entry.event for entry in history if entry.label is not None]
    if not events:
        return []
    times, right = history.rolling(window)
    share = np.clip(right, 0.0, 1.0)
    low, high = wilson(share, np.minimum(np.arange(1, len(events) + 1), window).astype(np.float64))
    shown = np.unique(np.linspace(0, len(events) - 1, min(points, len(events))).round().astype(int))
    return [
        {
            "event": events[i],
            "time": float(times[i]),
            "right": float(share[i]),
            "interval": [float(low[i]), float(high[i])],
        }
        for i in shown.tolist()
    ]


def relation_body(mem: SigmaMem, agreeing: Sequence[str] | None = None) -> dict[str, Any]:
    """G, what an agreement of these peers, all by default, is worth, and who errs with whom."""
    events = _past(mem).events
    labels = [event.labels().c for event in events.values()]
    with mem.journal as fold:
        state = fold.state
        peers, matrix = state.peers, state.G.tolist()
        chosen = list(peers) if agreeing is None else agreeing
        for peer in chosen:
            if peer not in peers:
                raise InputError(f"peer is {peer!r:.80}; expected one of {list(peers)}")
        given = np.array([[peer in each for each in labels] for peer in peers], dtype=int)
        together = given @ given.T
        places = [peers.index(peer) for peer in chosen]
        enough = together[np.ix_(places, places)].min() >= LEAST
        votes = votes_together(state, state.moment(mem.clock()), chosen) if enough else None
    errors = _errors(events, peers)
    return {"peers": peers, "matrix": matrix, "together": together.tolist(), "votes": votes, "errors": errors}


def _errors(events: Mapping[str, EventState], peers: tuple[str, ...]) -> dict[str, Any]:
    """The pool as `sigma-mem pool` reports it, by the events with a label of every answer."""
    labelled = {id: event for id, event in events.items() if _is_labelled_whole(event)}
    if not labelled:
        nothing = [[None] * len(peers)] * len(peers)
        return {"events": 0, "peers": [], "correlation": nothing, "deceiving": []}
    c = np.array([[event.labels().c.get(peer, np.nan) for peer in peers] for event in labelled.values()])
    silent = [-1] * len(peers)
    given = [event.answered.groups_among(peers) if event.answered else silent for event in labelled.values()]
    return measured_pool(peers, np.array(given), c, list(labelled)).values()


def _is_labelled_whole(event: EventState) -> bool:
    """Whether every answer has a label. Of others only equal ones have, which would seem to err together."""
    labels, answered = event.labels().c, event.answered
    if answered is None:
        return len(labels) > 1
    asked = zip(answered.peers, answered.groups, strict=True)
    return bool(labels) and all(peer in labels for peer, group in asked if group >= 0)


# --- what to label next ------------------------------------------------------------------


def without_labels(
    mem: SigmaMem, last: int, source: str, newest: bool = False, **wanted: Any
) -> dict[str, Any]:
    """The last decision of events that nobody labelled, and how far a label by a source would move p̂.

    A label moves p̂ of a peer by w·√(p̂(1 − p̂))/(n + s + w) in root mean square: w is what the source weighs, n
    are the labels near the task by now, and s is the strength of the prior.
    """
    found: dict[str, Decision] = {}
    for decision in islice(mem.decisions(label="none", **wanted), _LOOKED_AT):
        if not decision.labels:
            found.setdefault(decision.event, decision)
        if newest and len(found) == last:
            break
    moves: dict[str, dict[str, float]] = {}
    with mem.journal as fold:
        weight = fold.sources.weights([source], fold.state)[source]
        moment, strength = fold.state.moment(mem.clock()), mem.settings.local_strength(len(mem.peers))
        for event, made in found.items():
            now = fold.state.read(made.phi, moment, made.topics)
            shift = weight * np.sqrt(now.prob * (1.0 - now.prob)) / (now.effective + strength + weight)
            asked = made.canons or (made.served or made.peer,)
            moves[event] = {
                peer: x for peer, x in zip(fold.state.peers, shift.tolist(), strict=True) if peer in asked
            }
    order = list(found)
    if not newest:
        order.sort(key=lambda event: -sum(np.square(list(moves[event].values()))))
    shown = order[:last]
    return {
        "weight": weight,
        "moves": {event: moves[event] for event in shown},
        "decisions": [found[event] for event in shown],
    }
