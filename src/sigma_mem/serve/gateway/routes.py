"""The gateway's routes, as the clients of OpenAI and Anthropic call them."""

import asyncio
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Header
from starlette.requests import Request
from starlette.responses import Response

from sigma_mem.serve.auth import namespace_for, needs, principal_of
from sigma_mem.serve.context import Context
from sigma_mem.serve.failures import RefusedError
from sigma_mem.serve.gateway.calls import CHAT, MESSAGES, RESPONSES
from sigma_mem.serve.gateway.feedback import ResponseFeedback, record_feedback
from sigma_mem.serve.gateway.policy import Policy, unknown_model
from sigma_mem.serve.gateway.protocol import Options, Protocol, model_of, options_in, read_json
from sigma_mem.serve.gateway.protocol import Request as GatewayRequest
from sigma_mem.serve.routes import PlainRoute

Answer = Callable[[str, GatewayRequest], Coroutine[Any, Any, Response]]
_STARTED = 1_700_000_000  # OpenAI's clients expect when a model was made; nobody knows it here


def router(context: Context) -> APIRouter:
    """``/v1/chat/completions``, ``/v1/messages``, ``/v1/responses`` and what goes with them."""
    policy, usual = Policy(context), context.config.namespace
    context.closing.append(policy.pool.close)
    routes = APIRouter(tags=["gateway"], route_class=PlainRoute)

    async def answered(request: Request, protocol: Protocol, answer: Answer = policy.answer) -> Response:
        asked = protocol.read(read_json(await request.body()), request.headers)
        namespace = namespace_for(request, asked.options.namespace, usual)
        return await _while_wanted(request, answer(namespace, asked))

    @routes.post(
        "/v1/chat/completions",
        summary="Answer a chat, as OpenAI's endpoint does.",
        response_class=Response,
        openapi_extra=_body({"model": {"type": "string"}, "messages": {"type": "array", "items": {}}}),
    )
    @needs("write")
    async def create_chat_completion(request: Request) -> Response:
        return await answered(request, CHAT)

    @routes.post(
        "/v1/messages",
        summary="Answer a message, as Anthropic's endpoint does.",
        response_class=Response,
        openapi_extra=_body({"model": {"type": "string"}, "messages": {"type": "array", "items": {}}}),
    )
    @needs("write")
    async def create_message(request: Request) -> Response:
        return await answered(request, MESSAGES)

    @routes.post(
        "/v1/messages/count_tokens",
        summary="Count the tokens of a message, if an upstream can.",
        response_class=Response,
        openapi_extra=_body({"model": {"type": "string"}, "messages": {"type": "array", "items": {}}}),
    )
    @needs("write")
    async def count_message_tokens(request: Request) -> Response:
        return await answered(request, MESSAGES, policy.count_tokens)

    @routes.post(
        "/v1/responses",
        summary="Answer an input, as OpenAI's endpoint does.",
        response_class=Response,
        openapi_extra=_body({"model": {"type": "string"}, "input": {}}),
    )
    @needs("write")
    async def create_response(request: Request) -> Response:
        return await answered(request, RESPONSES)

    @routes.post(
        "/v1/embeddings",
        summary="Pass a request for embeddings through to the upstream that it names.",
        response_class=Response,
        openapi_extra=_body({"model": {"type": "string"}, "input": {}}),
    )
    @needs("write")
    async def create_embedding(request: Request) -> Response:
        body = read_json(await request.body())
        model, options = model_of(body), options_in(body.pop("sigma_mem", None))
        namespace = namespace_for(request, options.namespace, usual)
        return await _while_wanted(request, policy.embed(namespace, model, body))

    @routes.post("/v1/feedback", summary="Say how good a completion was, by its id.")
    @needs("write")
    async def give_feedback(
        request: Request,
        given: ResponseFeedback,
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
        data = [_model(name) for name in policy.models]
        ends = {"first_id": data[0]["id"], "last_id": data[-1]["id"]} if data else {}
        return {"object": "list", "data": data, "has_more": False, **ends}

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
    """A model, as OpenAI's clients and Anthropic's expect it."""
    ours = name.partition("/")[0] == "sigma-mem"
    return {
        "id": name,
        "object": "model",
        "created": _STARTED,
        "owned_by": "sigma-mem" if ours else "upstream",
        "type": "model",
        "display_name": name,
        "created_at": datetime.fromtimestamp(_STARTED, UTC).isoformat(),
    }


def _body(properties: dict[str, Any]) -> dict[str, Any]:
    """The schema of a body that is read here and mostly passed on."""
    schema = {
        "type": "object",
        "required": list(properties),
        "properties": properties | {"sigma_mem": Options.model_json_schema()},
        "additionalProperties": True,
    }
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}
