"""The gateway's routes, as the clients of OpenAI and Anthropic call them, and feedback by a response's id."""

import asyncio
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Annotated, Any, Self

from fastapi import APIRouter, Header
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator
from starlette.requests import Request
from starlette.responses import Response

from sigma_mem.operations import TABLE
from sigma_mem.serve.calls import Context, perform
from sigma_mem.serve.failures import RefusedError
from sigma_mem.serve.gateway import protocol as p
from sigma_mem.serve.gateway.chat import CHAT
from sigma_mem.serve.gateway.messages import MESSAGES
from sigma_mem.serve.gateway.policy import Policy, unknown_model
from sigma_mem.serve.gateway.protocol import Options, Protocol
from sigma_mem.serve.gateway.protocol import Request as GatewayRequest
from sigma_mem.serve.gateway.responses import RESPONSES
from sigma_mem.serve.guard import namespace_for, needs, principal_of
from sigma_mem.serve.routes import PlainRoute
from sigma_mem.session.peers import peers_that_said_it

Answer = Callable[[str, GatewayRequest], Coroutine[Any, Any, Response]]
_LIST = {"type": "array", "items": {}}
_LONG = 65_536  # bytes of a body, as coding agents send them; other requests have their turn after reading it
_STARTED = 1_700_000_000  # OpenAI's clients expect when a model was made; nobody knows it here


def router(context: Context) -> APIRouter:
    """``/v1/chat/completions``, ``/v1/messages``, ``/v1/responses`` and what goes with them."""
    policy, usual, topics = Policy(context), context.config.namespace, context.config.topics
    context.closing.append(policy.pool.close)
    routes = APIRouter(tags=["gateway"], route_class=PlainRoute)

    def add(path: str, name: str, summary: str, protocol: Protocol, answer: Answer = policy.answer) -> None:
        @needs("write")
        async def respond(request: Request) -> Response:
            def fitting(system: str, tools: list[str]) -> list[str]:
                key, path = principal_of(request).name, request.url.path
                return [rule.name for rule in topics if rule.fits(key, path, system, tools)]

            headers = {**request.headers, "x-request-id": request.scope["sigma_mem.request"]}
            raw = await request.body()
            asked = protocol.read(p.read_json(raw), headers, fitting if topics else None)
            if len(raw) > _LONG:
                await asyncio.sleep(0)
            namespace = namespace_for(request, asked.options.namespace, usual)
            return await _while_wanted(request, answer(namespace, asked))

        body = _body({"model": {"type": "string"}, protocol.turns: {} if protocol is RESPONSES else _LIST})
        routes.post(path, name=name, summary=summary, response_class=Response, openapi_extra=body)(respond)

    add("/v1/chat/completions", "create_chat_completion", "Answer a chat, as OpenAI's endpoint does.", CHAT)
    add("/v1/messages", "create_message", "Answer a message, as Anthropic's endpoint does.", MESSAGES)
    add(
        "/v1/messages/count_tokens",
        "count_message_tokens",
        "Count the tokens of a message, if an upstream can.",
        MESSAGES,
        policy.count_tokens,
    )
    add("/v1/responses", "create_response", "Answer an input, as OpenAI's endpoint does.", RESPONSES)

    @routes.post(
        "/v1/embeddings",
        summary="Pass a request for embeddings through to the upstream that it names.",
        response_class=Response,
        openapi_extra=_body({"model": {"type": "string"}, "input": {}}),
    )
    @needs("write")
    async def create_embedding(request: Request) -> Response:
        body = p.read_json(await request.body())
        model, options = p.model_of(body), p.options_in(body.pop("sigma_mem", None))
        namespace = namespace_for(request, options.namespace, usual)
        trace = p.trace_of({**request.headers, "x-request-id": request.scope["sigma_mem.request"]})
        return await _while_wanted(request, policy.embed(namespace, model, body, trace))

    @routes.post("/v1/feedback", summary="Say how good a completion was, by its id.")
    @needs("write")
    async def give_feedback(
        request: Request,
        given: ResponseFeedback,
        idempotency_key: Annotated[str | None, Header(min_length=1, max_length=256)] = None,
    ) -> dict[str, Any]:
        who, response = principal_of(request), p.own_id(given.id)
        namespace = namespace_for(request, given.namespace, usual)
        labels: dict[str, Any] = dict(given.labels or {})
        if given.score is not None:
            memory = await context.memories.get(namespace)
            decision = await memory.slow(lambda mem: mem.decision(response))
            labels = dict.fromkeys(peers_that_said_it(decision), 2.0 * given.score - 1.0)
        said = {"decision": response, "labels": labels, "id": idempotency_key, "amend": given.amend}
        operation = TABLE["feedback"]
        done, _ = await perform(context, who, operation, namespace, said, comment=given.comment)
        taken = {name: getattr(done, name) for name in ("id", "event", "labels", "source")}
        return {"object": "sigma_mem.feedback", **taken}

    @routes.get("/v1/models", summary="The memory's ways to choose, and every upstream.")
    @needs("read")
    async def list_models() -> dict[str, Any]:
        data = [_model(name) for name in policy.models]
        ends = {"first_id": data[0]["id"], "last_id": data[-1]["id"]} if data else {}
        return {"object": "list", "data": data, "has_more": False, **ends}

    @routes.get("/v1/models/{model:path}", summary="One of them.")
    @needs("read")
    async def get_model(model: str) -> dict[str, Any]:
        if model.partition(":")[0] not in p.VIRTUAL and model not in policy.models:
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


# ---- feedback


class ResponseFeedback(BaseModel):
    """How good a response was: a score of what was served, or labels of several peers."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"id": "chatcmpl-5f2b8a9c0d1e2f3a4b5c6d7e", "score": 1.0}]},
    )

    id: p.Name = Field(description="Of the response, or of the decision.")
    score: Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)] | None = Field(
        None, description="How good the answer that was served is: 0 is wrong, 1 is right."
    )
    labels: Annotated[dict[p.Name, bool | int | float], Field(min_length=1, max_length=1000)] | None = Field(
        None, description="Peer → true, false, or a number from -1 to 1."
    )
    comment: Annotated[str, StringConstraints(max_length=10_000)] | None = Field(
        None, description="For readers of the audit."
    )
    amend: bool = Field(False, description="Replace what the same key said before.")
    namespace: p.Name | None = Field(None, description="Where the response was decided.")

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.score is None) == (self.labels is None):
            raise ValueError("expected either score or labels")
        return self
