"""The memory's API: ``/v1/memory/{namespace}/`` and the name of a method of `SigmaMem`."""

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request
from starlette.responses import Response

from sigma_mem.errors import InputError, SigmaMemError
from sigma_mem.events import Decision, Feedback
from sigma_mem.serve import schemas
from sigma_mem.serve.auth import needs, principal_of
from sigma_mem.serve.bodies import (
    body_response,
    decision_body,
    feedback_body,
    namespace_body,
    phi_text,
    plain,
    settings_from,
)
from sigma_mem.serve.context import Context
from sigma_mem.serve.failures import refusal
from sigma_mem.serve.look_routes import Namespace, add_looks
from sigma_mem.serve.memories import ServedMemory
from sigma_mem.serve.move_routes import add_moves
from sigma_mem.serve.panel_routes import add_panels
from sigma_mem.session import SigmaMem
from sigma_mem.session.costs import Budget


def memory_routes(context: Context) -> APIRouter:
    """The routes of the memory's API."""
    routes = APIRouter(prefix="/v1/memory", tags=["memory"])
    _add_decisions(routes, context)  # first: routes are tried in order, and these are called most
    _add_feedback(routes, context)
    add_panels(routes, context)
    add_looks(routes, context)
    add_moves(routes, context)
    _add_namespaces(routes, context)
    return routes


def _add_namespaces(routes: APIRouter, context: Context) -> None:
    memories, audit = context.memories, context.audit

    @routes.get("", summary="Namespaces that the key may read.", response_model=schemas.NamesBody)
    @needs("read")
    async def list_namespaces(request: Request) -> Response:
        who = principal_of(request)
        return body_response(
            {"namespaces": [name for name in await memories.names() if who.may("read", name)]}
        )

    @routes.put(
        "/{namespace}",
        summary="Make a namespace. Idempotent; other peers or settings than it has are a conflict.",
        response_model=schemas.NamespaceBody,
    )
    @needs("admin")
    async def create_namespace(
        namespace: Namespace, body: schemas.NamespaceRequest, request: Request
    ) -> Response:
        settings = None if body.settings is None else settings_from(body.settings, memories.trusted)
        memory = await memories.create(
            namespace, body.peers, rank=body.rank, encoder=body.encoder, settings=settings
        )
        audit.wrote(principal_of(request), "create", namespace, peers=body.peers)
        return body_response(namespace_body(namespace, memory.mem))

    @routes.get("/{namespace}", summary="What a namespace is.", response_model=schemas.NamespaceBody)
    @needs("read")
    async def describe_namespace(namespace: Namespace) -> Response:
        return body_response(namespace_body(namespace, (await memories.get(namespace)).mem))

    async def change_peers(
        namespace: str,
        request: Request,
        action: str,
        body: schemas.PeerRequest,
        call: Callable[[SigmaMem], None],
    ) -> Response:
        memory = await memories.get(namespace)
        await memory.slow(call)
        audit.wrote(principal_of(request), action, namespace, **body.model_dump())
        return body_response(namespace_body(namespace, memory.mem))

    @routes.post("/{namespace}/peers", summary="Take a peer in.", response_model=schemas.NamespaceBody)
    @needs("admin")
    async def add_peer(namespace: Namespace, body: schemas.JoinRequest, request: Request) -> Response:
        return await change_peers(
            namespace,
            request,
            "add_peer",
            body,
            lambda mem: mem.add_peer(body.peer, returning=body.returning),
        )

    @routes.post(
        "/{namespace}/peers/reset",
        summary="Say that a model was updated under its name.",
        response_model=schemas.NamespaceBody,
    )
    @needs("admin")
    async def reset_peer(namespace: Namespace, body: schemas.ResetRequest, request: Request) -> Response:
        return await change_peers(
            namespace, request, "reset_peer", body, lambda mem: mem.reset_peer(body.peer, keep=body.keep)
        )

    @routes.post(
        "/{namespace}/peers/rename", summary="Give a peer another name.", response_model=schemas.NamespaceBody
    )
    @needs("admin")
    async def rename_peer(namespace: Namespace, body: schemas.RenameRequest, request: Request) -> Response:
        return await change_peers(
            namespace, request, "rename_peer", body, lambda mem: mem.rename_peer(body.peer, body.name)
        )

    @routes.post(
        "/{namespace}/peers/replace",
        summary="Put a successor in a peer's place.",
        response_model=schemas.NamespaceBody,
    )
    @needs("admin")
    async def replace_peer(namespace: Namespace, body: schemas.ReplaceRequest, request: Request) -> Response:
        return await change_peers(
            namespace,
            request,
            "replace_peer",
            body,
            lambda mem: mem.replace_peer(body.peer, body.by, keep=body.keep),
        )

    @routes.post("/{namespace}/prices", summary="Say what a peer costs.", response_model=schemas.PricesBody)
    @needs("admin")
    async def set_price(namespace: Namespace, body: schemas.PriceRequest, request: Request) -> Response:
        memory = await memories.get(namespace)
        await memory.slow(lambda mem: mem.set_price(**body.model_dump()))
        audit.wrote(principal_of(request), "set_price", namespace, peer=body.peer)
        return body_response({"prices": plain(memory.mem.prices())})

    @routes.delete(
        "/{namespace}/peers",
        summary="Take a peer out of the pool, and forget what is known of it.",
        response_model=schemas.NamespaceBody,
    )
    @needs("admin")
    async def remove_peer(
        namespace: Namespace, request: Request, peer: Annotated[str, Query(min_length=1, max_length=256)]
    ) -> Response:
        memory = await memories.get(namespace)
        await memory.slow(lambda mem: mem.remove_peer(peer))
        audit.wrote(principal_of(request), "remove_peer", namespace, peer=peer)
        return body_response(namespace_body(namespace, memory.mem))


def _add_decisions(routes: APIRouter, context: Context) -> None:
    memories, metrics = context.memories, context.metrics

    def answer(decision: Decision) -> Response:
        metrics.decisions.labels(decision.read).inc()
        return body_response(decision_body(decision))

    @routes.post(
        "/{namespace}/route",
        summary="Choose a peer before anyone answers.",
        response_model=schemas.DecisionBody,
    )
    @needs("write")
    async def route(namespace: Namespace, body: schemas.RouteRequest) -> Response:
        options = body.options("read", "explore", "max_cost", "max_latency", "value", "min_prob")
        if body.budget is not None:
            options["budget"] = Budget(**body.budget.model_dump())
        memory = await memories.get(namespace)
        return answer(await memory.quick(lambda mem: mem.route(body.question, **options)))

    @routes.post(
        "/{namespace}/vote",
        summary="Choose among answers: equal ones vote together.",
        response_model=schemas.DecisionBody,
    )
    @needs("write")
    async def vote(namespace: Namespace, body: schemas.WeighedVoteRequest) -> Response:
        options = body.options("read", "canon", "min_confidence")
        memory = await memories.get(namespace)
        run = memory.quick if body.is_quick else memory.slow
        return answer(await run(lambda mem: mem.vote(body.question, body.given(), **options)))

    @routes.post(
        "/{namespace}/decide",
        summary="Choose among answers by the read that has been best here.",
        response_model=schemas.DecisionBody,
    )
    @needs("write")
    async def decide(namespace: Namespace, body: schemas.VoteRequest) -> Response:
        options = body.options("canon", "min_confidence")
        memory = await memories.get(namespace)
        run = memory.quick if body.is_quick else memory.slow
        return answer(await run(lambda mem: mem.decide(body.question, body.given(), **options)))

    @routes.post(
        "/{namespace}/served",
        summary="Say who really answered, as a caller does that only observes.",
        response_model=schemas.DecisionBody,
    )
    @needs("write")
    async def served(namespace: Namespace, body: schemas.ServedRequest, request: Request) -> Response:
        memory = await memories.get(namespace)
        decision = await memory.slow(
            lambda mem: mem.served(body.decision, body.peer, cost=body.cost, latency=body.latency)
        )
        context.audit.wrote(
            principal_of(request), "served", namespace, decision=decision.id, peer=decision.served
        )
        return body_response(decision_body(decision))

    @routes.post("/{namespace}/encode", summary="φ of a question.", response_model=schemas.PhiBody)
    @needs("read")
    async def encode(namespace: Namespace, body: schemas.EncodeRequest) -> Response:
        memory = await memories.get(namespace)
        return body_response({"phi": phi_text(await memory.quick(lambda mem: mem.encode(body.question)))})


def _add_feedback(routes: APIRouter, context: Context) -> None:
    memories, metrics, audit = context.memories, context.metrics, context.audit

    async def take(
        memory: ServedMemory, body: schemas.FeedbackRequest, request: Request, id: str | None
    ) -> Feedback:
        who = principal_of(request)
        taken = await memory.quick(
            lambda mem: mem.feedback(
                body.decision,
                body.labels,
                scores=body.scores,
                source=who.name,
                id=id,
                amend=body.amend,
                wait=False,
            )
        )
        metrics.feedback.inc()
        audit.wrote(
            who,
            "feedback",
            memory.namespace,
            id=taken.id,
            event=taken.event,
            labels=taken.labels,
            amends=taken.amends,
        )
        return taken

    @routes.post(
        "/{namespace}/feedback",
        summary="Say who was right. Returns once it is on disk; idempotent.",
        response_model=schemas.FeedbackBody,
    )
    @needs("write")
    async def feedback(
        namespace: Namespace,
        body: schemas.FeedbackRequest,
        request: Request,
        idempotency_key: Annotated[str | None, Header(min_length=1, max_length=256)] = None,
    ) -> Response:
        if None not in (body.id, idempotency_key) and body.id != idempotency_key:
            raise InputError("id and the header Idempotency-Key differ; expected one of them")
        memory = await memories.get(namespace)
        id = body.id or idempotency_key
        return body_response(feedback_body(await memories.durable(take(memory, body, request, id))))

    @routes.post(
        "/{namespace}/feedback/batch",
        summary="Several at once, each taken or refused on its own. Returns once they are on disk.",
        response_model=schemas.BatchBody,
    )
    @needs("write")
    async def feedback_batch(namespace: Namespace, body: schemas.FeedbackBatch, request: Request) -> Response:
        if len(body.items) > context.config.limits.batch:
            raise InputError(f"got {len(body.items)} items; expected {context.config.limits.batch} at most")
        memory = await memories.get(namespace)

        async def take_all() -> list[dict[str, Any]]:
            results = []
            for item in body.items:
                try:
                    results.append({"feedback": feedback_body(await take(memory, item, request, item.id))})
                except SigmaMemError as error:
                    results.append({"error": refusal(error)[1]["error"]})
            return results

        return body_response({"results": await memories.durable(take_all())})

    def change(name: str, summary: str) -> None:
        @routes.post(f"/{{namespace}}/{name}", summary=summary, name=name, response_model=schemas.LinesBody)
        @needs("admin")
        async def revise(namespace: Namespace, body: schemas.SourceRequest, request: Request) -> Response:
            memory = await memories.get(namespace)
            call = SigmaMem.revoke if name == "revoke" else SigmaMem.unrevoke
            lines = await memory.slow(lambda mem: call(mem, body.source))
            audit.wrote(principal_of(request), name, namespace, source=body.source, lines=lines)
            return body_response({"source": body.source, "lines": lines})

    change("revoke", "Take back all feedback of a source.")
    change("unrevoke", "Let a revoked source count again.")
