"""The gateway's routes, as OpenAI's clients call them."""

from typing import Annotated, Any

from fastapi import APIRouter, Header
from starlette.requests import Request
from starlette.responses import Response

from sigma_mem.serve.auth import namespace_for, needs, principal_of
from sigma_mem.serve.context import Context
from sigma_mem.serve.gateway.calls import refused_by
from sigma_mem.serve.gateway.chat import answer_chat, model_names, require_peer, unknown_model
from sigma_mem.serve.gateway.chat_request import ChatOptions, chat_options, model_of, read_chat, read_json
from sigma_mem.serve.gateway.completion import price_of
from sigma_mem.serve.gateway.failure import UpstreamError
from sigma_mem.serve.gateway.feedback import CompletionFeedback, record_feedback
from sigma_mem.serve.gateway.leaving import while_wanted
from sigma_mem.serve.gateway.pool import Pool
from sigma_mem.serve.gateway.pricing import Pricing
from sigma_mem.serve.gateway.reply import ChatReply, headers_of, json_response

_STARTED = 1_700_000_000  # OpenAI's clients expect when a model was made; nobody knows it here


def router(context: Context) -> APIRouter:
    """``/v1/models``, ``/v1/chat/completions``, ``/v1/embeddings`` and ``/v1/feedback``."""
    counted = context.metrics.upstream_calls
    pool = Pool(context.config.upstreams, lambda peer, outcome: counted.labels(peer, outcome).inc())
    pricing = Pricing(context.config.upstreams)
    context.closing.append(pool.close)
    routes = APIRouter(tags=["gateway"])

    @routes.get("/v1/models", summary="The memory's ways to choose, and every upstream.")
    @needs("read")
    async def list_models() -> dict[str, Any]:
        return {"object": "list", "data": [_model(name) for name in model_names(pool)]}

    @routes.get("/v1/models/{model:path}", summary="One of them.")
    @needs("read")
    async def get_model(model: str) -> dict[str, Any]:
        if model not in model_names(pool):
            raise unknown_model(model)
        return _model(model)

    @routes.post(
        "/v1/chat/completions",
        summary="Answer a chat, as OpenAI's endpoint does.",
        response_class=Response,
        openapi_extra=_body({"model": {"type": "string"}, "messages": {"type": "array", "items": {}}}),
    )
    @needs("write")
    async def create_chat_completion(request: Request) -> Response:
        chat = read_chat(await request.body())
        namespace = namespace_for(request, chat.options.namespace, context.config.namespace)
        return await while_wanted(request, answer_chat(context, pool, pricing, namespace, chat))

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
        namespace = namespace_for(request, options.namespace, context.config.namespace)
        if model not in pool:
            raise unknown_model(model)
        await require_peer(context, namespace, model)
        return await while_wanted(request, embed(model, body))

    async def embed(model: str, body: dict[str, Any]) -> Response:
        try:
            found = await pool[model].post("embeddings", body, "data", context.config.deadline)
        except UpstreamError as error:
            raise refused_by(error) from error
        cost = price_of(pool[model].settings, found.get("usage"))
        headers = headers_of({"peer": model, "attempts": 1, "cost": cost})
        return json_response(ChatReply({**found, "model": model}, headers))

    @routes.post("/v1/feedback", summary="Say how good a completion was, by its id.")
    @needs("write")
    async def give_feedback(
        request: Request,
        given: CompletionFeedback,
        idempotency_key: Annotated[str | None, Header(min_length=1, max_length=256)] = None,
    ) -> dict[str, Any]:
        who = principal_of(request)
        namespace = namespace_for(request, given.namespace, context.config.namespace)
        memory = await context.memories.get(namespace)
        done = await record_feedback(memory, given, who, idempotency_key)
        context.metrics.feedback.inc()
        context.audit.wrote(who, "feedback", namespace, id=done["id"], comment=given.comment)
        return done

    return routes


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
