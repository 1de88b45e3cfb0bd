"""The gateway's routes, as OpenAI's clients call them."""

import asyncio
from collections.abc import Coroutine
from typing import Annotated, Any

from fastapi import APIRouter, Header
from starlette.requests import Request
from starlette.responses import Response

from sigma_mem.serve.auth import namespace_for, needs, principal_of
from sigma_mem.serve.context import Context
from sigma_mem.serve.failures import RefusedError
from sigma_mem.serve.gateway.conversation import CompletionFeedback, record_feedback
from sigma_mem.serve.gateway.policy import Policy, unknown_model
from sigma_mem.serve.gateway.protocol import ChatOptions, chat_options, model_of, read_chat, read_json
from sigma_mem.serve.routes import PlainRoute

_STARTED = 1_700_000_000  # OpenAI's clients expect when a model was made; nobody knows it here


def router(context: Context) -> APIRouter:
    """``/v1/chat/completions``, ``/v1/embeddings``, ``/v1/feedback`` and ``/v1/models``."""
    policy, usual = Policy(context), context.config.namespace
    context.closing.append(policy.pool.close)
    routes = APIRouter(tags=["gateway"], route_class=PlainRoute)

    @routes.post(
        "/v1/chat/completions",
        summary="Answer a chat, as OpenAI's endpoint does.",
        response_class=Response,
        openapi_extra=_body({"model": {"type": "string"}, "messages": {"type": "array", "items": {}}}),
    )
    @needs("write")
    async def create_chat_completion(request: Request) -> Response:
        chat = read_chat(read_json(await request.body()))
        namespace = namespace_for(request, chat.options.namespace, usual)
        return await _while_wanted(request, policy.answer(namespace, chat))

    @routes.post(
        "/v1/embeddings",
        summary="Pass a request for embeddings through to the upstream that it names.",
        response_class=Response,
        openapi_extra=_body({"model": {"type": "string"}, "input": {}}),
    )
    @needs("write")
    async def create_embedding(request: Request) -> Response:
        body = read_json(await request.body())
        model, options = model_of(body), chat_options(body.pop("sigma_mem", None))
        namespace = namespace_for(request, options.namespace, usual)
        return await _while_wanted(request, policy.embed(namespace, model, body))

    @routes.post("/v1/feedback", summary="Say how good a completion was, by its id.")
    @needs("write")
    async def give_feedback(
        request: Request,
        given: CompletionFeedback,
        idempotency_key: Annotated[str | None, Header(min_length=1, max_length=256)] = None,
    ) -> dict[str, Any]:
        who = principal_of(request)
        namespace = namespace_for(request, given.namespace, usual)
        memory = await context.memories.get(namespace)
        done = await record_feedback(memory, given, who, idempotency_key)
        context.metrics.feedback.inc()
        context.audit.wrote(who, "feedback", namespace, id=done["id"], comment=given.comment)
        return done

    @routes.get("/v1/models", summary="The memory's ways to choose, and every upstream.")
    @needs("read")
    async def list_models() -> dict[str, Any]:
        return {"object": "list", "data": [_model(name) for name in policy.models]}

    @routes.get("/v1/models/{model:path}", summary="One of them.")
    @needs("read")
    async def get_model(model: str) -> dict[str, Any]:
        if model not in policy.models:
            raise unknown_model(model)
        return _model(model)

    return routes


async def _while_wanted(request: Request, answer: Coroutine[Any, Any, Response]) -> Response:
    """The response to a request whose body was read; cancelled as soon as the client has gone.

    The 499 that is raised then reaches the log and the metrics only.
    """
    working = asyncio.current_task()
    left = False

    async def watch() -> None:
        nonlocal left
        await request.receive()  # after the body, only that the client left
        left = True
        if working is not None:
            working.cancel()

    watching = asyncio.create_task(watch())
    try:
        return await answer
    except asyncio.CancelledError:
        if not left:  # the server stops
            raise
        if working is not None:
            working.uncancel()
        raise RefusedError(499, "client_left", "the client went away before the answer") from None
    finally:
        watching.cancel()


def _model(name: str) -> dict[str, Any]:
    ours = name.partition("/")[0] == "sigma-mem"
    return {
        "id": name,
        "object": "model",
        "created": _STARTED,
        "owned_by": "sigma-mem" if ours else "upstream",
    }


def _body(properties: dict[str, Any]) -> dict[str, Any]:
    """The schema of a body that is read here and mostly passed on."""
    schema = {
        "type": "object",
        "required": list(properties),
        "properties": properties | {"sigma_mem": ChatOptions.model_json_schema()},
        "additionalProperties": True,
    }
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}
