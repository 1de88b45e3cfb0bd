"""What every part of the service shares, and a call of an operation: checked, run, counted and noted."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any

from starlette.responses import Response

from sigma_mem.events import Answer, Decision, Feedback
from sigma_mem.operations import Operation
from sigma_mem.serve.alarms import Alarms
from sigma_mem.serve.config import ServerConfig
from sigma_mem.serve.keys import LOCAL, KeyRing, Principal
from sigma_mem.serve.memories import Memories
from sigma_mem.serve.telemetry import Audit, Metrics
from sigma_mem.session import SigmaMem
from sigma_mem.session.panel import Panel
from sigma_mem.wire import as_json


@dataclass(frozen=True, slots=True)
class Context:
    """Configuration, keys, memories, metrics, audit and alarms; what runs and closes with the service."""

    config: ServerConfig
    keys: KeyRing
    memories: Memories
    metrics: Metrics
    audit: Audit
    alarms: Alarms
    closing: list[Callable[[], Awaitable[None]]] = field(default_factory=list)
    running: list[AbstractAsyncContextManager[None]] = field(default_factory=list)


_QUICK_CHARACTERS = 20_000


async def perform(
    context: Context,
    caller: Principal,
    operation: Operation[Any, Any],
    namespace: str,
    given: Mapping[str, Any],
    *,
    durable: bool = True,
    **more: object,
) -> tuple[Any, bytes]:
    """Call an operation for somebody who may; its result, and the body of the response.

    What it wrote is on disk then, unless it is a decision, which may be written behind, or the caller waits
    for the disk itself (`durable`). The audit has what it notes of the operation, and `more`.
    """
    if durable and "wait" in operation.kept:
        running = perform(context, caller, operation, namespace, given, durable=False, **more)
        return await context.memories.durable(namespace, running)
    arguments = with_kept(operation, given, caller.name)
    if "id" in operation.parameters and operation.verb == "POST":
        arguments["id"] = id_of_caller(caller, given.get("id"))

    def work(mem: SigmaMem) -> tuple[Any, bytes]:
        found = getattr(mem, operation.name)(**arguments)
        return found, as_json(namespace_body(namespace, mem) if found is None else operation.body(found))

    memory = await context.memories.get(namespace)
    found, body = await (memory.quick if operation.quick and is_short(given) else memory.slow)(work)
    _count(context, operation, found)
    if operation.noted is not None:
        said = {name: getattr(found, name, given.get(name)) for name in operation.noted}
        if operation.result is not None:
            said[operation.result] = found
        context.audit.wrote(caller, operation.name, namespace, **said, **more)
    return found, body


def with_kept(operation: Operation[Any, Any], given: Mapping[str, Any], source: str) -> dict[str, Any]:
    """The arguments of a call, with those that the service sets itself."""
    kept: dict[str, Any] = {"source": source, "wait": False, "judges": ()}
    return {**given, **{name: kept[name] for name in operation.kept}}


def id_of_caller(caller: Principal, id: str | None) -> str | None:
    """The id of what a key sent: its own, so that no key can take another's.

    >>> id_of_caller(Principal("ci", {"*": "write"}), "run-7")
    'ci:run-7'
    """
    return id if id is None or caller is LOCAL else f"{caller.name}:{id}"


def _count(context: Context, operation: Operation[Any, Any], found: Any) -> None:
    decision = found.decision if isinstance(found, Panel) else found
    if isinstance(decision, Decision) and operation.role == "write" and operation.noted is None:
        context.metrics.decided(decision.read)
    elif isinstance(found, Feedback):
        context.metrics.feedback.inc()


def is_short(given: Mapping[str, Any]) -> bool:
    """Whether texts are encoded and compared in microseconds: no long ones."""
    answers, question = given.get("answers") or {}, given.get("question") or ""
    texts = [each.text if isinstance(each, Answer) else each or "" for each in answers.values()]
    texts += [question] if isinstance(question, str) else [str(each.get("content")) for each in question]
    return sum(map(len, texts)) <= _QUICK_CHARACTERS


def body_response(body: Any) -> Response:
    """A body as a response."""
    return written_response(as_json(body))


def written_response(content: bytes) -> Response:
    """JSON that is written already, as a response."""
    return Response(content, media_type="application/json")


def namespace_body(name: str, mem: SigmaMem) -> dict[str, Any]:
    """What a namespace's memory is."""
    return {
        "name": name,
        "peers": mem.peers,
        "events": mem.events,
        "rank": mem.rank,
        "encoder": mem.encoder,
        "settings": mem.settings,
        "keep_text": mem.keep_text,
    }
