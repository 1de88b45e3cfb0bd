"""The part of the memory's API that only looks: decisions, trust, histories, explanations, sources, drift."""

from typing import Annotated

from fastapi import APIRouter, Path, Query
from starlette.responses import Response

from sigma_mem.errors import InputError
from sigma_mem.serve import schemas
from sigma_mem.serve.auth import needs
from sigma_mem.serve.bodies import body_response, decision_body, explanation_body, plain
from sigma_mem.serve.context import Context
from sigma_mem.serve.memories import NAMESPACE
from sigma_mem.session import SigmaMem

_LATEST = 253_402_300_799.0  # the end of the year 9999
Namespace = Annotated[str, Path(pattern=NAMESPACE, description="Which memory.", examples=["default"])]
DecisionId = Annotated[
    str, Query(min_length=1, max_length=256, description="Id of a decision, or the ref of its event.")
]


def add_looks(routes: APIRouter, context: Context) -> None:
    """Add what only looks."""
    memories, most = context.memories, context.config.limits.batch

    @routes.get("/{namespace}/decision", summary="An earlier decision.", response_model=schemas.DecisionBody)
    @needs("read")
    async def decision(namespace: Namespace, id: DecisionId) -> Response:
        memory = await memories.get(namespace)
        return body_response(decision_body(await memory.slow(lambda mem: mem.decision(id))))

    @routes.get(
        "/{namespace}/decisions",
        summary="The last decisions, newest first.",
        response_model=schemas.DecisionsBody,
    )
    @needs("read")
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
        memory = await memories.get(namespace)
        start, end = moment_of(since), moment_of(until)
        found = await memory.slow(
            lambda mem: list(
                mem.decisions(last, before=before, peer=peer, read=read, since=start, until=end, text=text)
            )
        )
        return body_response({"decisions": [decision_body(each) for each in found]})

    @routes.post(
        "/{namespace}/trust",
        summary="How far each peer can be trusted at a question. Only looks.",
        response_model=schemas.TrustBody,
    )
    @needs("read")
    async def trust(namespace: Namespace, body: schemas.TrustRequest) -> Response:
        memory = await memories.get(namespace)
        phi = schemas.decoded_phi(body.phi)
        found = await memory.quick(lambda mem: mem.trust(body.question, phi=phi, topic=body.topic))
        return body_response({"trust": found.to_dict()})

    @routes.post(
        "/{namespace}/effective_votes",
        summary="How many independent votes each answer's supporters are worth. Only looks.",
        response_model=schemas.VotesBody,
    )
    @needs("read")
    async def effective_votes(namespace: Namespace, body: schemas.VotesRequest) -> Response:
        memory = await memories.get(namespace)
        given = {peer: schemas.sent_answer(answer) for peer, answer in body.answers.items()}
        phi, canon = schemas.decoded_phi(body.phi), body.canon
        votes = await memory.slow(lambda mem: mem.effective_votes(given, body.question, phi=phi, canon=canon))
        return body_response({"votes": votes})

    @routes.get(
        "/{namespace}/table",
        summary="How far each peer can be trusted at all.",
        response_model=schemas.TableBody,
    )
    @needs("read")
    async def table(
        namespace: Namespace,
        topic: Annotated[list[str] | None, Query(max_length=256, description="All by default.")] = None,
    ) -> Response:
        memory = await memories.get(namespace)
        return body_response((await memory.slow(lambda mem: mem.table(topic))).to_dict())

    @routes.get("/{namespace}/prices", summary="What peers cost.", response_model=schemas.PricesBody)
    @needs("read")
    async def prices(namespace: Namespace) -> Response:
        memory = await memories.get(namespace)
        return body_response({"prices": plain(await memory.slow(lambda mem: mem.prices()))})

    @routes.get("/{namespace}/spent", summary="What was spent.", response_model=schemas.SpentBody)
    @needs("read")
    async def spent(
        namespace: Namespace,
        since: Annotated[float | None, Query(ge=0.0, le=_LATEST, description="Seconds since 1970.")] = None,
        until: Annotated[
            float | None, Query(ge=0.0, le=_LATEST, description="The same; not included.")
        ] = None,
    ) -> Response:
        memory = await memories.get(namespace)
        found = await memory.slow(lambda mem: mem.spent(since=since, until=until))
        return body_response(plain(found._asdict()))

    @routes.get(
        "/{namespace}/histories",
        summary="Records of peers: events in which each was labelled or chosen, oldest first.",
        response_model=schemas.HistoriesBody,
    )
    @needs("read")
    async def histories(
        namespace: Namespace,
        peer: Annotated[list[str] | None, Query(max_length=256, description="Whose; all by default.")] = None,
        last: Annotated[int | None, Query(ge=1, description="Only so many of each, the newest.")] = None,
        lines: Annotated[
            int | None, Query(ge=1, description="Look at so many lines of the ledger only.")
        ] = None,
    ) -> Response:
        memory = await memories.get(namespace)
        if peer is not None and (unknown := [name for name in peer if name not in memory.mem.peers]):
            raise InputError(f"got peers {unknown}; expected some of {list(memory.mem.peers)}")
        found = await memory.slow(lambda mem: mem.histories(peer, lines=lines))
        rows = {name: plain(each[-last:] if last else each[:]) for name, each in found.items()}
        return body_response({"histories": rows})

    @routes.get(
        "/{namespace}/labels", summary="The labels that an event has now.", response_model=schemas.LabelsBody
    )
    @needs("read")
    async def labels(namespace: Namespace, decision: DecisionId) -> Response:
        memory = await memories.get(namespace)
        return body_response({"labels": dict(await memory.slow(lambda mem: mem.labels(decision)))})

    @routes.get(
        "/{namespace}/explain",
        summary="Which past events weighed how much in a decision.",
        response_model=schemas.ExplanationBody,
    )
    @needs("read")
    async def explain(
        namespace: Namespace,
        decision: DecisionId,
        peer: Annotated[str | None, Query(max_length=256, description="The chosen one by default.")] = None,
        top: Annotated[int, Query(ge=0, le=most, description="How many events to list.")] = 5,
    ) -> Response:
        memory = await memories.get(namespace)
        found = await memory.slow(lambda mem: mem.explain(decision, peer=peer, top=top))
        return body_response(explanation_body(found))

    @routes.get("/{namespace}/sources", summary="Who gave feedback.", response_model=schemas.SourcesBody)
    @needs("read")
    async def sources(namespace: Namespace) -> Response:
        memory = await memories.get(namespace)
        return body_response({"sources": plain(await memory.slow(SigmaMem.sources))})

    @routes.get(
        "/{namespace}/advice",
        summary="How the memory could be used better.",
        response_model=schemas.AdviceBody,
    )
    @needs("read")
    async def advice(namespace: Namespace) -> Response:
        memory = await memories.get(namespace)
        return body_response({"advice": plain(await memory.slow(lambda mem: mem.advice()))})

    @routes.get("/{namespace}/drift", summary="Peers that changed.", response_model=schemas.DriftsBody)
    @needs("read")
    async def drift(namespace: Namespace) -> Response:
        memory = await memories.get(namespace)
        return body_response({"drift": plain(await memory.slow(SigmaMem.drift))})


def moment_of(text: str | float | None) -> float | str | None:
    """A time of a query: seconds since 1970, or a date as it was written."""
    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        return text
