"""The memory's API: ``/v1/memory/{namespace}/`` and the name of a method of `SigmaMem`."""

from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from sigma_mem.events import Decision
from sigma_mem.ledger.costs import Budget
from sigma_mem.serve.auth import principal_of
from sigma_mem.serve.bodies import (
    body_response,
    decision_body,
    namespace_body,
    phi_text,
    plain,
    settings_from,
)
from sigma_mem.serve.context import Context
from sigma_mem.serve.feedback_routes import add_feedback
from sigma_mem.serve.look_routes import add_looks
from sigma_mem.serve.move_routes import add_moves
from sigma_mem.serve.panel_routes import add_panels
from sigma_mem.serve.routes import MemoryRoutes, Namespace
from sigma_mem.serve.schemas import requests, responses
from sigma_mem.session import SigmaMem


def memory_routes(context: Context) -> APIRouter:
    """The routes of the memory's API."""
    routes = MemoryRoutes(context)
    _add_decisions(routes)  # first: routes are tried in order, and these are called most
    add_feedback(routes)
    add_panels(routes)
    add_looks(routes)
    add_moves(routes)
    _add_namespaces(routes)
    _add_peers(routes)
    return routes.router


def _add_decisions(routes: MemoryRoutes) -> None:
    metrics = routes.context.metrics

    def answer(decision: Decision) -> Response:
        metrics.decided(decision.read)
        return body_response(decision_body(decision))

    @routes.post("route", "write", "Choose a peer before anyone answers.", responses.DecisionBody)
    async def route(namespace: Namespace, body: requests.RouteRequest) -> Response:
        options = body.options("read", "explore", "max_cost", "max_latency", "value", "min_prob")
        if body.budget is not None:
            options["budget"] = Budget(**body.budget.model_dump())
        return answer(await routes.quick(namespace, lambda mem: mem.route(body.question, **options)))

    @routes.post("vote", "write", "Choose among answers: equal ones vote together.", responses.DecisionBody)
    async def vote(namespace: Namespace, body: requests.WeighedVoteRequest) -> Response:
        options = body.options("read", "canon", "min_confidence")
        run = routes.quick if body.is_quick else routes.slow
        return answer(await run(namespace, lambda mem: mem.vote(body.question, body.given(), **options)))

    @routes.post(
        "decide",
        "write",
        "Choose among answers by the read that has been best here.",
        responses.DecisionBody,
    )
    async def decide(namespace: Namespace, body: requests.VoteRequest) -> Response:
        options = body.options("canon", "min_confidence")
        run = routes.quick if body.is_quick else routes.slow
        return answer(await run(namespace, lambda mem: mem.decide(body.question, body.given(), **options)))

    @routes.post(
        "served",
        "write",
        "Say who really answered, as a caller does that only observes.",
        responses.DecisionBody,
    )
    async def served(namespace: Namespace, body: requests.ServedRequest, request: Request) -> Response:
        decision = await routes.slow(namespace, lambda mem: mem.served(**body.model_dump()))
        routes.wrote(request, "served", namespace, decision=decision.id, peer=decision.served)
        return body_response(decision_body(decision))

    @routes.post("encode", "read", "φ of a question.", responses.PhiBody)
    async def encode(namespace: Namespace, body: requests.EncodeRequest) -> Response:
        phi = await routes.quick(namespace, lambda mem: mem.encode(body.question))
        return body_response({"phi": phi_text(phi)})


def _add_namespaces(routes: MemoryRoutes) -> None:
    memories = routes.memories

    @routes.add("GET", "", "read", "Namespaces that the key may read.", responses.NamesBody)
    async def list_namespaces(request: Request) -> Response:
        who = principal_of(request)
        return body_response(
            {"namespaces": [name for name in await memories.names() if who.may("read", name)]}
        )

    @routes.add(
        "PUT",
        "/{namespace}",
        "admin",
        "Make a namespace. Idempotent; other peers or settings than it has are a conflict.",
        responses.NamespaceBody,
    )
    async def create_namespace(
        namespace: Namespace, body: requests.NamespaceRequest, request: Request
    ) -> Response:
        settings = None if body.settings is None else settings_from(body.settings, memories.trusted)
        memory = await memories.create(
            namespace, body.peers, rank=body.rank, encoder=body.encoder, settings=settings
        )
        routes.wrote(request, "create", namespace, peers=body.peers)
        return body_response(namespace_body(namespace, memory.mem))

    @routes.add("GET", "/{namespace}", "read", "What a namespace is.", responses.NamespaceBody)
    async def describe_namespace(namespace: Namespace) -> Response:
        return body_response(namespace_body(namespace, (await memories.get(namespace)).mem))


def _add_peers(routes: MemoryRoutes) -> None:
    async def change(
        request: Request, namespace: str, method: Callable[..., None], **said: object
    ) -> Response:
        """Call a method that changes the pool; its name goes to the audit log."""
        await routes.slow(namespace, lambda mem: method(mem, **said))
        routes.wrote(request, method.__name__, namespace, **said)
        return body_response(namespace_body(namespace, (await routes.memories.get(namespace)).mem))

    @routes.post("peers", "admin", "Take a peer in.", responses.NamespaceBody)
    async def add_peer(namespace: Namespace, body: requests.JoinRequest, request: Request) -> Response:
        return await change(request, namespace, SigmaMem.add_peer, **body.model_dump())

    @routes.post(
        "peers/reset", "admin", "Say that a model was updated under its name.", responses.NamespaceBody
    )
    async def reset_peer(namespace: Namespace, body: requests.ResetRequest, request: Request) -> Response:
        return await change(request, namespace, SigmaMem.reset_peer, **body.model_dump())

    @routes.post("peers/rename", "admin", "Give a peer another name.", responses.NamespaceBody)
    async def rename_peer(namespace: Namespace, body: requests.RenameRequest, request: Request) -> Response:
        return await change(request, namespace, SigmaMem.rename_peer, **body.model_dump())

    @routes.post("peers/replace", "admin", "Put a successor in a peer's place.", responses.NamespaceBody)
    async def replace_peer(namespace: Namespace, body: requests.ReplaceRequest, request: Request) -> Response:
        return await change(request, namespace, SigmaMem.replace_peer, **body.model_dump())

    @routes.add(
        "DELETE",
        "/{namespace}/peers",
        "admin",
        "Take a peer out of the pool, and forget what is known of it.",
        responses.NamespaceBody,
    )
    async def remove_peer(
        namespace: Namespace, request: Request, peer: Annotated[str, Query(min_length=1, max_length=256)]
    ) -> Response:
        return await change(request, namespace, SigmaMem.remove_peer, peer=peer)

    @routes.post("prices", "admin", "Say what a peer costs.", responses.PricesBody)
    async def set_price(namespace: Namespace, body: requests.PriceRequest, request: Request) -> Response:
        await routes.slow(namespace, lambda mem: mem.set_price(**body.model_dump()))
        routes.wrote(request, "set_price", namespace, peer=body.peer)
        return body_response({"prices": plain(await routes.slow(namespace, SigmaMem.prices))})
