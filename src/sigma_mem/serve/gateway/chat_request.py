"""A chat request as the gateway reads it; fields that it does not know go to the upstream untouched."""

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from sigma_mem.answers.chat import question_text
from sigma_mem.errors import InputError
from sigma_mem.serve.failures import RefusedError
from sigma_mem.serve.gateway.parsing import clean_unicode, decode_json
from sigma_mem.serve.gateway.tool_loop import completion_in_loop, unmarked

Body = dict[str, Any]
Name = Annotated[str, StringConstraints(min_length=1, max_length=512)]

_OURS = ("model", "stream", "sigma_mem")  # fields that are not forwarded as they came


class ChatOptions(BaseModel):
    """What a client may say in ``extra_body={"sigma_mem": {...}}``."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    topic: Name | Annotated[list[Name], Field(min_length=1, max_length=64)] | None = None
    among: Annotated[list[Name], Field(min_length=1, max_length=1000)] | None = None
    explore: bool | None = None
    max_cost: Annotated[float, Field(ge=0.0, allow_inf_nan=False)] | None = None
    after: Name | None = None
    namespace: Name | None = None


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One chat request.

    Attributes
    ----------
    model : str
        Who shall answer: a peer's name, or one of the memory's ways to choose.
    body : mapping
        What goes to an upstream, without model and stream.
    stream, wants_usage : bool
        Whether the answer comes in chunks, and whether the last one says what was used.
    options : ChatOptions
    in_loop : str, optional
        The completion whose tool calls this request brings the results of.
    """

    model: str
    body: Body
    stream: bool
    wants_usage: bool
    options: ChatOptions
    in_loop: str | None

    @property
    def question(self) -> str:
        """The text that φ is made of; what kinds of parts there are, where no message holds a text."""
        messages = self.body["messages"]
        try:
            return clean_unicode(question_text(messages) or "no text")
        except InputError:
            parts = [part for message in messages for part in _parts(message)]
            kinds = dict.fromkeys(str(part.get("type")) for part in parts if isinstance(part, dict))
            return clean_unicode(" ".join(kinds)) or "no text"


def _parts(message: object) -> list[Any]:
    content = message.get("content") if isinstance(message, dict) else None
    return content if isinstance(content, list) else []


def read_chat(raw: bytes) -> ChatRequest:
    """Check what the gateway itself needs of a request; the rest is the upstream's to judge."""
    body = read_json(raw)
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise bad_request("messages is missing or empty; expected a list of chat messages", "messages")
    stream = body.get("stream") or False
    if not isinstance(stream, bool):
        raise bad_request(f"stream is {stream!r:.80}; expected true or false", "stream")
    usage = body.get("stream_options")
    forwarded = {key: value for key, value in body.items() if key not in _OURS}
    forwarded["messages"] = unmarked(messages)
    return ChatRequest(
        model=model_of(body),
        body=forwarded,
        stream=stream,
        wants_usage=isinstance(usage, dict) and usage.get("include_usage") is True,
        options=chat_options(body.get("sigma_mem")),
        in_loop=completion_in_loop(messages),
    )


def read_json(raw: bytes) -> Body:
    """A JSON object, or a refusal that says what it is instead."""
    try:
        body = decode_json(raw)
    except ValueError:
        raise bad_request("the body is not JSON", None) from None
    if not isinstance(body, dict):
        raise bad_request(f"the body is a JSON {type(body).__name__}; expected an object", None)
    return body


def model_of(body: Body) -> str:
    """The model that a request names."""
    model = body.get("model")
    if not isinstance(model, str) or not model:
        raise bad_request("model is missing; expected one of GET /v1/models", "model")
    return model


def bad_request(message: str, param: str | None) -> RefusedError:
    """A request that no upstream needs to see."""
    return RefusedError(400, "invalid_request", message if param is None else f"{message} ({param})")


def chat_options(given: object) -> ChatOptions:
    """What a request says in the field `sigma_mem`; nothing where it has none."""
    try:
        return ChatOptions.model_validate(given if given is not None else {})
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(["sigma_mem", *(str(part) for part in first["loc"])])
        raise bad_request(f"{where}: {first['msg']}", None) from None
