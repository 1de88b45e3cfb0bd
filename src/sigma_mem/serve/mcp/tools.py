"""The tools: the operations that an agent may call, and a panel's second step."""

from collections.abc import Awaitable, Callable
from inspect import Parameter, Signature
from secrets import token_hex
from typing import Annotated, Any

from mcp.server.mcpserver import MCPServer
from mcp.types import ToolAnnotations
from pydantic import Field
from pydantic.fields import FieldInfo

from sigma_mem.errors import UnknownDecisionError
from sigma_mem.events import Decision
from sigma_mem.operations import ASK, TABLE, Operation
from sigma_mem.serve.failures import RefusedError
from sigma_mem.serve.mcp.memories import AnyCall, ToolMemories
from sigma_mem.serve.mcp.results import RESULTS, PanelStep, decision_summary, panel_step
from sigma_mem.serve.panels import OpenPanels
from sigma_mem.serve.requests import Name, Text, request_model
from sigma_mem.session import SigmaMem
from sigma_mem.session.panel import Panel
from sigma_mem.wire import finite, to_plain

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
        peer: Annotated[Name, Field(description="Who answered.")],
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
