"""The memory for agents that speak the Model Context Protocol (extra ``[mcp]``).

The tools are the same everywhere: the operations that an agent may call, and a panel's second step. A call
goes to a file's memory over standard input and output, or to a namespace of the service over HTTP. What is
refused is one line that a model can act on.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager
from inspect import Parameter, Signature
from secrets import token_hex
from typing import Annotated, Any, TypeVar, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.fields import FieldInfo
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from sigma_mem import __version__
from sigma_mem.errors import InputError, SigmaMemError, StoreError, UnknownDecisionError
from sigma_mem.events import Decision, Feedback
from sigma_mem.extras import require
from sigma_mem.operations import ASK, TABLE, Operation
from sigma_mem.serve.calls import Context, perform, with_kept
from sigma_mem.serve.failures import RefusedError, refusal
from sigma_mem.serve.guard import Access, principal_of, require_role
from sigma_mem.serve.keys import Principal
from sigma_mem.serve.routes import OpenPanels
from sigma_mem.serve.schemas import Name, Text, request_model
from sigma_mem.session import Explanation, SigmaMem, TrustByPeer
from sigma_mem.session.panel import Panel
from sigma_mem.wire import SentTrust, finite, to_plain

require("mcp", extra="mcp", purpose="the Model Context Protocol")

from mcp.server.mcpserver import Context as Call  # noqa: E402
from mcp.server.mcpserver import MCPServer  # noqa: E402
from mcp.server.mcpserver.exceptions import ToolError  # noqa: E402
from mcp.server.transport_security import TransportSecuritySettings  # noqa: E402
from mcp.types import CallToolResult, InputRequiredResult, ToolAnnotations  # noqa: E402

# ---- memories: of a file, or the namespaces of the service that a key may use


T = TypeVar("T")
AnyCall = Call[Any, Any]


class FileMemory:
    """One memory, for the one agent that started the process."""

    def __init__(self, mem: SigmaMem, namespace: str, source: str) -> None:
        self._mem, self._namespace, self._source = mem, namespace, source

    def namespace_of(self, given: str | None) -> str:
        """The one that was opened."""
        if given not in (None, self._namespace):
            raise InputError(
                f"namespace is {given!r}; expected {self._namespace!r}, which is open here; leave it out"
            )
        return self._namespace

    async def call(
        self, call: AnyCall, operation: Operation[Any, T], namespace: str, given: Mapping[str, Any]
    ) -> T:
        """Call an operation, in a thread; feedback is from the source that the command line named."""
        arguments = with_kept(operation, given, self._source)
        return await self.write(call, namespace, lambda mem: getattr(mem, operation.name)(**arguments))

    async def write(self, call: AnyCall, namespace: str, write: Callable[[SigmaMem], T]) -> T:
        """Write and wait for the disk, in a thread."""

        def written() -> T:
            done = write(self._mem)
            self._mem.store.flush()
            return done

        return await asyncio.to_thread(written)


class ServiceMemories:
    """All namespaces of a service, each for the keys that may use it."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def namespace_of(self, given: str | None) -> str:
        """The named one, or the service's own."""
        return self._context.config.namespace if given is None else given

    async def call(
        self, call: AnyCall, operation: Operation[Any, T], namespace: str, given: Mapping[str, Any]
    ) -> T:
        """Call an operation, if the key may, and wait for the disk; feedback is from the key."""
        caller = _caller(call)
        require_role(caller, operation.role, namespace)
        running = perform(self._context, caller, operation, namespace, given)
        with _without_address():
            found, _ = await (
                running if operation.role == "read" else self._context.memories.durable(namespace, running)
            )
        done: T = found
        return done

    async def write(self, call: AnyCall, namespace: str, write: Callable[[SigmaMem], T]) -> T:
        """Write, if the key may, and wait for the disk."""
        require_role(_caller(call), "write", namespace)
        with _without_address():
            memory = await self._context.memories.get(namespace)
            return await self._context.memories.durable(namespace, memory.slow(write))


ToolMemories = FileMemory | ServiceMemories


@contextmanager
def _without_address() -> Iterator[None]:
    """What the store says of a failure goes to the log."""
    try:
        yield
    except StoreError as error:
        raise StoreError(refusal(error)[1]["error"]["message"]) from None


def _caller(call: AnyCall) -> Principal:
    """The caller of the HTTP request that this call came in."""
    request = call.request_context.request
    if request is None:
        raise InputError("the call came without an HTTP request; expected one, at /mcp")
    return principal_of(request)


# ---- tools


class DecisionSummary(BaseModel):
    """Whom to trust, and how far."""

    decision: str = Field(description="The id of this decision, for feedback and explain.")
    event: str = Field(description="The event: the id of its first decision.")
    ref: str | None = Field(description="The caller's own name of the event.")
    peer: str | None = Field(description="Whom to trust; null if the decision abstains.")
    answer: str | None = Field(description="That peer's answer; null for a route.")
    confidence: float = Field(description="How sure the decision is, from 0 to 1.")
    probs: dict[str, float] = Field(description="Probability of being right here, by peer.")
    evidence: dict[str, float] = Field(description="How many labelled events are behind that, by peer.")
    read: str = Field(description="How it was chosen.")
    cost: float | None = Field(description="What the event's calls cost, or are expected to.")
    abstained: str | None = Field(None, description="Why nobody was chosen.")


class PanelStep(BaseModel):
    """Where a panel stands: whom to ask now, or the outcome."""

    ref: str = Field(description="Names the panel, for add_answer.")
    next: str | None = Field(description="The peer to ask now; null once the answers are enough.")
    change: float = Field(description="The chance that the peers not asked would change the answer.")
    asked: list[str] = Field(description="Peers whose answer is there.")
    decision: DecisionSummary = Field(description="The choice among the answers so far.")


class ExplanationBody(BaseModel):
    """Why a peer had the score it had: terms of past events."""

    model_config = ConfigDict(extra="allow")
    decision: str
    peer: str
    chosen: str
    score: float
    prob: float
    effective: float
    text: str = Field(description="The same in words.")


class PeerBody(BaseModel):
    """A peer, how often it is right, and on how many labels."""

    name: str
    prob: float
    labels: int


class PeersBody(BaseModel):
    """The pool, in order."""

    peers: list[PeerBody]


def _model(sent: type) -> type[BaseModel]:
    """A dataclass as a model: the SDK describes results of no other class."""
    fields: dict[str, Any] = {name: (hint, ...) for name, hint in get_type_hints(sent).items()}
    return create_model(sent.__name__, __doc__=sent.__doc__, **fields)


# What a tool's result looks like; any other is an object.
RESULTS: Mapping[type, type[BaseModel]] = {
    Decision: DecisionSummary,
    Explanation: ExplanationBody,
    TrustByPeer: _model(SentTrust),
    Feedback: _model(Feedback),
}


def decision_summary(decision: Decision) -> DecisionSummary:
    """A decision without φ and what else only programs need."""
    why: dict[str, Any] = decision.details.get("abstained", {})
    return DecisionSummary(
        decision=decision.id,
        event=decision.event,
        ref=decision.ref,
        peer=decision.peer,
        answer=decision.answer,
        confidence=decision.confidence,
        probs=dict(decision.probs),
        evidence=dict(decision.effective),
        read=decision.read,
        cost=decision.cost,
        abstained=why.get("because", "not sure enough") if decision.peer is None else None,
    )


def panel_step(ref: str, panel: Panel) -> PanelStep:
    """Where a panel stands."""
    return PanelStep(
        ref=ref,
        next=panel.next,
        change=panel.change,
        asked=list(panel.answers),
        decision=decision_summary(panel.decision),
    )


Run = Callable[[AnyCall, str, dict[str, Any]], Awaitable[Any]]
Namespace = Annotated[Name | None, Field(description="Which memory; leave it out for the default one.")]
# Parameters of programs, which a model would fill in by guessing.
_LEFT_OUT = frozenset({"phi", "read", "value", "max_latency", "budget"})
_AGAIN = ("feedback", "add_answer")  # the same call again changes nothing


def add_tools(server: MCPServer[Any], memories: ToolMemories) -> None:
    """Add every tool to a server."""
    for operation in TABLE.values():
        if operation.tool:
            _add_operation(server, memories, operation)
    _add_peers(server, memories)
    _add_panels(server, memories)


def _add_operation(server: MCPServer[Any], memories: ToolMemories, operation: Operation[Any, Any]) -> None:
    async def run(call: AnyCall, namespace: str, given: dict[str, Any]) -> Any:
        found = await memories.call(call, operation, namespace, given)
        return (
            decision_summary(found)
            if isinstance(found, Decision)
            else finite(to_plain(operation.body(found)))
        )

    result = RESULTS.get(operation.returns, dict[str, Any])
    _add(server, memories, operation, run, result)


def _add(
    server: MCPServer[Any], memories: ToolMemories, operation: Operation[Any, Any], run: Run, result: Any
) -> None:
    """Add a tool with the parameters of an operation, and a namespace."""
    model = request_model(operation, most=100, left_out=_LEFT_OUT)

    async def tool(call: AnyCall, namespace: str | None = None, **given: Any) -> Any:
        return await run(call, memories.namespace_of(namespace), given)

    own = [_parameter(name, field) for name, field in model.model_fields.items()]
    first = Parameter("call", Parameter.KEYWORD_ONLY, annotation=AnyCall)
    last = Parameter("namespace", Parameter.KEYWORD_ONLY, default=None, annotation=Namespace)
    parameters = [first, *own, last]
    tool.__signature__ = Signature(parameters, return_annotation=result)  # type: ignore[attr-defined]
    tool.__annotations__ = {**{each.name: each.annotation for each in parameters}, "return": result}
    tool.__name__ = operation.name
    server.tool(description=operation.summary, annotations=_hints(operation.name, operation.role == "read"))(
        tool
    )


def _parameter(name: str, field: FieldInfo) -> Parameter:
    default = Parameter.empty if field.is_required() else field.default
    return Parameter(
        name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[field.annotation, field]
    )


def _hints(name: str, looks: bool) -> ToolAnnotations:
    return ToolAnnotations(
        read_only_hint=looks,
        destructive_hint=False,
        idempotent_hint=looks or name in _AGAIN,
        open_world_hint=False,
    )


def _add_peers(server: MCPServer[Any], memories: ToolMemories) -> None:
    @server.tool(annotations=_hints("peers", True))
    async def peers(call: AnyCall, namespace: Namespace = None) -> PeersBody:
        """The peers that can be chosen: how often each is right whatever the task, and on how many labels."""
        found = await memories.call(call, TABLE["trust"], memories.namespace_of(namespace), {})
        return PeersBody(peers=[PeerBody(name=x, prob=found[x].prob, labels=found[x].labels) for x in found])


def _add_panels(server: MCPServer[Any], memories: ToolMemories) -> None:
    panels = OpenPanels()

    async def ask(call: AnyCall, namespace: str, given: dict[str, Any]) -> PanelStep:
        name = given.get("ref") or f"ask-{token_hex(6)}"
        panel: Panel = await memories.call(call, ASK, namespace, {**given, "ref": name})
        panels.keep(namespace, panel)
        return panel_step(name, panel)

    _add(server, memories, ASK, ask, PanelStep)

    @server.tool(annotations=_hints("add_answer", False))
    async def add_answer(
        call: AnyCall,
        ref: Annotated[Name, Field(description="The panel, as ask named it.")],
        peer: Annotated[Name, Field(description="The peer that answered.")],
        answer: Annotated[Text | None, Field(description="Its answer; null if it failed.")],
        namespace: Namespace = None,
    ) -> PanelStep:
        """Give a peer's answer to a panel: next is whom to ask now, null once the answers are enough."""
        where = memories.namespace_of(namespace)

        def add(mem: SigmaMem) -> Panel:
            panel = _open_panel(panels, mem, where, ref)
            panel.add(peer, answer)
            return panel

        return panel_step(ref, await memories.write(call, where, add))


def _open_panel(panels: OpenPanels, mem: SigmaMem, namespace: str, ref: str) -> Panel:
    try:
        return panels.find(namespace, mem.decision(ref).event)
    except (RefusedError, UnknownDecisionError) as error:
        raise UnknownDecisionError(
            f"no panel with ref {ref!r} is open here; expected one that ask began; "
            f"call ask with the question and ref {ref!r}"
        ) from error


# ---- the server


_SHOWN = 80  # characters of what a caller sent
_INSTRUCTIONS = """\
Σ-Mem remembers which models or agents (peers) were right on which kind of task.
Before you hand a task to a peer, call route. With several answers in hand, call decide.
To ask only as many peers as needed, call ask, then add_answer until next is null.
Once you know who was right, call feedback with the decision's id: only this teaches the memory."""


class MemoryServer(MCPServer[Any]):
    """The tools, for some memories."""

    def __init__(self, memories: ToolMemories) -> None:
        root = logging.getLogger()
        handlers, level = root.handlers[:], root.level
        super().__init__(
            "sigma-mem",
            title="Σ-Mem",
            instructions=_INSTRUCTIONS,
            version=__version__,
            subscriptions=False,
            log_level="WARNING",
        )
        root.handlers[:], root.level = handlers, level  # the SDK sets up the log of the whole program
        add_tools(self, memories)

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: AnyCall | None = None
    ) -> CallToolResult | InputRequiredResult:
        """Call a tool; what it refuses is one line: got, expected, remedy."""
        known = {tool.name: list(tool.input_schema["properties"]) for tool in await self.list_tools()}
        if name not in known:
            raise ToolError(f"got tool {name!r}; expected one of {sorted(known)}")
        for argument in arguments:
            if argument not in known[name]:
                raise ToolError(
                    f"{name} got an argument {argument[:_SHOWN]!r}; expected some of {known[name]}"
                )
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            if isinstance(error.__cause__, ValidationError):
                raise ToolError(_fault(name, error.__cause__)) from error.__cause__
            if isinstance(error.__cause__, SigmaMemError):
                raise ToolError(" ".join(str(error.__cause__).split())) from error.__cause__
            raise


def _fault(tool: str, error: ValidationError) -> str:
    """The first argument that does not fit, in one line."""
    fault = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in fault["loc"])
    got = "nothing" if fault["type"] == "missing" else repr(fault["input"])[:_SHOWN]
    message = " ".join(str(fault["msg"]).split())
    return f"{tool} got {got} as {where}; expected: {message}; correct it and call {tool} again"


class McpEndpoint:
    """The protocol's server as an application.

    It keeps no session between requests, so that there is none that another key could take over. Every tool
    looks itself whether the key may use it: to read is enough to list them.
    """

    access = Access("read")

    def __init__(self, context: Context) -> None:
        server = MemoryServer(ServiceMemories(context))
        server.streamable_http_app(
            stateless_http=True,
            json_response=True,
            max_request_body_size=context.config.limits.body_bytes,
            transport_security=TransportSecuritySettings(
                enable_dns_rebinding_protection=False
            ),  # `Guard` does
        )
        self._sessions = server.session_manager

    @property
    def route(self) -> Route:
        """Where it is: it takes POST only, since it has nothing to send unasked."""
        return Route("/mcp", self, methods=["POST"])

    def running(self) -> AbstractAsyncContextManager[None]:
        """Takes requests while it is entered."""
        return self._sessions.run()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        await self._sessions.handle_request(scope, receive, send)


def serve_stdio(mem: SigmaMem, namespace: str, source: str) -> None:
    """Serve until standard input ends; feedback is taken under the name `source`."""
    MemoryServer(FileMemory(mem, namespace, source)).run("stdio")
