"""Feedback over HTTP: one or many at once, and sources that are revoked."""

from typing import Annotated, Any

from fastapi import Header, Request
from starlette.responses import Response

from sigma_mem.errors import InputError, SigmaMemError
from sigma_mem.events import Feedback
from sigma_mem.serve.auth import principal_of
from sigma_mem.serve.bodies import body_response, feedback_body
from sigma_mem.serve.failures import refusal
from sigma_mem.serve.routes import MemoryRoutes, Namespace
from sigma_mem.serve.schemas import requests, responses
from sigma_mem.session import SigmaMem


def add_feedback(routes: MemoryRoutes) -> None:
    """Add what takes feedback."""
    memories, metrics, most = routes.memories, routes.context.metrics, routes.context.config.limits.batch

    async def take(
        namespace: str, body: requests.FeedbackRequest, request: Request, id: str | None
    ) -> Feedback:
        options: dict[str, Any] = {"scores": body.scores, "id": id, "amend": body.amend, "wait": False}
        options["source"] = principal_of(request).name
        taken = await routes.quick(namespace, lambda mem: mem.feedback(body.decision, body.labels, **options))
        metrics.feedback.inc()
        said = {"id": taken.id, "event": taken.event, "labels": taken.labels, "amends": taken.amends}
        routes.wrote(request, "feedback", namespace, **said)
        return taken

    @routes.post(
        "feedback",
        "write",
        "Say who was right. Returns once it is on disk; idempotent.",
        responses.FeedbackBody,
    )
    async def feedback(
        namespace: Namespace,
        body: requests.FeedbackRequest,
        request: Request,
        idempotency_key: Annotated[str | None, Header(min_length=1, max_length=256)] = None,
    ) -> Response:
        if None not in (body.id, idempotency_key) and body.id != idempotency_key:
            raise InputError("id and the header Idempotency-Key differ; expected one of them")
        taken = take(namespace, body, request, body.id or idempotency_key)
        return body_response(feedback_body(await memories.durable(namespace, taken)))

    @routes.post(
        "feedback/batch",
        "write",
        "Several at once, each taken or refused on its own. Returns once they are on disk.",
        responses.BatchBody,
    )
    async def feedback_batch(
        namespace: Namespace, body: requests.FeedbackBatch, request: Request
    ) -> Response:
        if len(body.items) > most:
            raise InputError(f"got {len(body.items)} items; expected {most} at most")
        await memories.get(namespace)  # refuse the batch, and not each item, where there is no memory

        async def take_all() -> list[dict[str, Any]]:
            results = []
            for item in body.items:
                try:
                    results.append({"feedback": feedback_body(await take(namespace, item, request, item.id))})
                except SigmaMemError as error:
                    results.append({"error": refusal(error)[1]["error"]})
            return results

        return body_response({"results": await memories.durable(namespace, take_all())})

    async def revise(request: Request, namespace: str, revoked: bool, source: str) -> Response:
        call = SigmaMem.revoke if revoked else SigmaMem.unrevoke
        lines = await routes.slow(namespace, lambda mem: call(mem, source))
        routes.wrote(request, call.__name__, namespace, source=source, lines=lines)
        return body_response({"source": source, "lines": lines})

    @routes.post("revoke", "admin", "Take back all feedback of a source.", responses.LinesBody)
    async def revoke(namespace: Namespace, body: requests.SourceRequest, request: Request) -> Response:
        return await revise(request, namespace, True, body.source)

    @routes.post("unrevoke", "admin", "Let a revoked source count again.", responses.LinesBody)
    async def unrevoke(namespace: Namespace, body: requests.SourceRequest, request: Request) -> Response:
        return await revise(request, namespace, False, body.source)
