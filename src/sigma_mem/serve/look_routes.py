"""The part of the memory's API that only looks: decisions, trust, histories, explanations, sources, drift."""

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import Query
from pydantic import BaseModel
from starlette.responses import Response

from sigma_mem.errors import InputError
from sigma_mem.serve.bodies import body_response, decision_body, explanation_body, plain
from sigma_mem.serve.routes import DecisionId, MemoryRoutes, Namespace
from sigma_mem.serve.schemas import requests, responses
from sigma_mem.session import SigmaMem

_LATEST = 253_402_300_799.0  # the end of the year 9999


def add_looks(routes: MemoryRoutes) -> None:
    """Add what only looks."""
    _add_decisions(routes)
    _add_trust(routes)
    _add_histories(routes)
    for name, summary, body, look in (
        ("prices", "What peers cost.", responses.PricesBody, lambda mem: mem.prices()),
        ("sources", "Who gave feedback.", responses.SourcesBody, lambda mem: mem.sources()),
        ("advice", "How the memory could be used better.", responses.AdviceBody, lambda mem: mem.advice()),
        ("drift", "Peers that changed.", responses.DriftsBody, lambda mem: mem.drift()),
    ):
        _add_list(routes, name, summary, body, look)


def _add_list(
    routes: MemoryRoutes, name: str, summary: str, body: type[BaseModel], look: Callable[[SigmaMem], Any]
) -> None:
    @routes.get(name, summary, body, name=name)
    async def listed(namespace: Namespace) -> Response:
        return body_response({name: plain(await routes.slow(namespace, look))})


def _add_decisions(routes: MemoryRoutes) -> None:
    most = routes.context.config.limits.batch

    @routes.get("decision", "An earlier decision.", responses.DecisionBody)
    async def decision(namespace: Namespace, id: DecisionId) -> Response:
        return body_response(decision_body(await routes.slow(namespace, lambda mem: mem.decision(id))))

    @routes.get("decisions", "The last decisions, newest first.", responses.DecisionsBody)
    async def decisions(
        namespace: Namespace,
        last: Annotated[int, Query(ge=1, le=most, description="At most this many.")] = min(20, most),
        before: Annotated[
            str | None, Query(max_length=256, description="The last on the page before.")
        ] = None,
        peer: Annotated[str | None, Query(max_length=256, description="Only those that chose it.")] = None,
        read: Annotated[str | None, Query(max_length=256, description="Only those made by it.")] = None,
        since: Annotated[
            str | None, Query(max_length=64, description="Seconds since 1970, or a date.")
        ] = None,
        until: Annotated[str | None, Query(max_length=64, description="The same; not included.")] = None,
        text: Annotated[str | None, Query(max_length=1000, description="In question or answer.")] = None,
    ) -> Response:
        start, end = moment_of(since), moment_of(until)
        found = await routes.slow(
            namespace,
            lambda mem: list(
                mem.decisions(last, before=before, peer=peer, read=read, since=start, until=end, text=text)
            ),
        )
        return body_response({"decisions": [decision_body(each) for each in found]})

    @routes.get("labels", "The labels that an event has now.", responses.LabelsBody)
    async def labels(namespace: Namespace, decision: DecisionId) -> Response:
        found = await routes.slow(namespace, lambda mem: mem.labels(decision))
        return body_response({"labels": dict(found)})

    @routes.get("explain", "Which past events weighed how much in a decision.", responses.ExplanationBody)
    async def explain(
        namespace: Namespace,
        decision: DecisionId,
        peer: Annotated[str | None, Query(max_length=256, description="The chosen one by default.")] = None,
        top: Annotated[int, Query(ge=0, le=most, description="How many events to list.")] = 5,
    ) -> Response:
        found = await routes.slow(namespace, lambda mem: mem.explain(decision, peer=peer, top=top))
        return body_response(explanation_body(found))


def _add_trust(routes: MemoryRoutes) -> None:
    @routes.post(
        "trust", "read", "How far each peer can be trusted at a question. Only looks.", responses.TrustBody
    )
    async def trust(namespace: Namespace, body: requests.TrustRequest) -> Response:
        phi = requests.decoded_phi(body.phi)
        found = await routes.quick(namespace, lambda mem: mem.trust(body.question, phi=phi, topic=body.topic))
        return body_response({"trust": found.to_dict()})

    @routes.post(
        "effective_votes",
        "read",
        "How many independent votes each answer's supporters are worth. Only looks.",
        responses.VotesBody,
    )
    async def effective_votes(namespace: Namespace, body: requests.VotesRequest) -> Response:
        given = {peer: requests.sent_answer(answer) for peer, answer in body.answers.items()}
        options: dict[str, Any] = {"phi": requests.decoded_phi(body.phi), "canon": body.canon}
        votes = await routes.slow(namespace, lambda mem: mem.effective_votes(given, body.question, **options))
        return body_response({"votes": votes})

    @routes.get("table", "How far each peer can be trusted at all.", responses.TableBody)
    async def table(
        namespace: Namespace,
        topic: Annotated[list[str] | None, Query(max_length=256, description="All by default.")] = None,
    ) -> Response:
        return body_response((await routes.slow(namespace, lambda mem: mem.table(topic))).to_dict())


def _add_histories(routes: MemoryRoutes) -> None:
    @routes.get("spent", "What was spent.", responses.SpentBody)
    async def spent(
        namespace: Namespace,
        since: Annotated[float | None, Query(ge=0.0, le=_LATEST, description="Seconds since 1970.")] = None,
        until: Annotated[
            float | None, Query(ge=0.0, le=_LATEST, description="The same; not included.")
        ] = None,
    ) -> Response:
        found = await routes.slow(namespace, lambda mem: mem.spent(since=since, until=until))
        return body_response(plain(found._asdict()))

    @routes.get(
        "histories",
        "Records of peers: events in which each was labelled or chosen, oldest first.",
        responses.HistoriesBody,
    )
    async def histories(
        namespace: Namespace,
        peer: Annotated[list[str] | None, Query(max_length=256, description="Whose; all by default.")] = None,
        last: Annotated[int | None, Query(ge=1, description="Only so many of each, the newest.")] = None,
        lines: Annotated[
            int | None, Query(ge=1, description="Look at so many lines of the ledger only.")
        ] = None,
    ) -> Response:
        memory = await routes.memories.get(namespace)
        if peer is not None and (unknown := [name for name in peer if name not in memory.mem.peers]):
            raise InputError(f"got peers {unknown}; expected some of {list(memory.mem.peers)}")
        found = await memory.slow(lambda mem: mem.histories(peer, lines=lines))
        rows = {name: plain(each[-last:] if last else each[:]) for name, each in found.items()}
        return body_response({"histories": rows})


def moment_of(text: str | float | None) -> float | str | None:
    """A time of a query: seconds since 1970, or a date as it was written."""
    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        return text
