"""The tools: what an agent may do with a memory."""

from collections.abc import Callable
from secrets import token_hex
from typing import Annotated, Any

from mcp.server.mcpserver import MCPServer
from mcp.types import ToolAnnotations
from pydantic import Field

from sigma_mem.answers.canon import Kind
from sigma_mem.decide.panel import CHANGE
from sigma_mem.errors import UnknownDecisionError
from sigma_mem.events import Decision
from sigma_mem.serve.bodies import explanation_body, feedback_body
from sigma_mem.serve.failures import RefusedError, finite
from sigma_mem.serve.mcp.memories import AnyCall, ToolMemories
from sigma_mem.serve.mcp.results import DecisionSummary, PanelStep, decision_summary, panel_step
from sigma_mem.serve.panel_routes import OpenPanels
from sigma_mem.serve.schemas import requests, responses
from sigma_mem.session import SigmaMem
from sigma_mem.session.panel import Panel

Question = Annotated[requests.Text | None, Field(description="The task, in words.")]
Topics = Annotated[
    requests.Name | list[requests.Name] | None,
    Field(description="What you know of the kind of task: its field, tool or language; one, or several."),
]
Among = Annotated[
    list[requests.Name] | None, Field(min_length=1, description="Choose among these peers only.")
]
After = Annotated[
    requests.Name | None, Field(description="Id of an earlier decision on the same task: both are one event.")
]
Ref = Annotated[
    requests.Name | None, Field(description="A name of your own for the task, such as a trace's.")
]
Canon = Annotated[Kind, Field(description="How answers are compared.")]
Namespace = Annotated[
    requests.Name | None, Field(description="Which memory; leave it out for the default one.")
]
Known = Annotated[requests.Name, Field(description="Id of any decision on the task, or its ref.")]
_LOOKS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
_WRITES = ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=False
)
_LABELS = ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)


def add_tools(server: MCPServer[Any], memories: ToolMemories) -> None:
    """Add every tool to a server."""
    _add_choices(server, memories)
    _add_panels(server, memories)
    _add_feedback(server, memories)
    _add_looks(server, memories)


def _add_choices(server: MCPServer[Any], memories: ToolMemories) -> None:
    async def decide(
        call: AnyCall, namespace: str | None, make: Callable[[SigmaMem], Decision]
    ) -> DecisionSummary:
        where = memories.namespace_of(namespace)
        decision = await memories.write(call, where, make)
        memories.wrote(call, where, decision)
        return decision_summary(decision)

    @server.tool(annotations=_WRITES)
    async def route(
        call: AnyCall,
        question: Question = None,
        topic: Topics = None,
        among: Among = None,
        explore: Annotated[
            bool, Field(description="Try the others too, where only the chosen peer will be labelled.")
        ] = False,
        max_cost: Annotated[
            float | None, Field(ge=0.0, description="Only peers whose call costs this at most.")
        ] = None,
        min_prob: Annotated[
            float | None, Field(ge=0.0, le=1.0, description="The cheapest peer this likely right.")
        ] = None,
        after: After = None,
        ref: Ref = None,
        namespace: Namespace = None,
    ) -> DecisionSummary:
        """Choose the peer to hand a task to, before anyone answers. Give a question, a topic or both."""
        return await decide(
            call,
            namespace,
            lambda mem: mem.route(
                question,
                topic=topic,
                among=among,
                explore=explore,
                max_cost=max_cost,
                min_prob=min_prob,
                after=after,
                ref=ref,
            ),
        )

    @server.tool(annotations=_WRITES)
    async def vote(
        call: AnyCall,
        answers: Annotated[
            dict[requests.Name, requests.Text | None],
            Field(description="Peer → its answer; null where it gave none."),
        ],
        question: Question = None,
        topic: Topics = None,
        among: Among = None,
        canon: Canon = "auto",
        min_confidence: Annotated[
            float | None,
            Field(
                ge=0.0, le=1.0, description="Abstain where decisions as sure as this are right less often."
            ),
        ] = None,
        after: After = None,
        ref: Ref = None,
        namespace: Namespace = None,
    ) -> DecisionSummary:
        """Choose among peers' answers to a task: equal answers vote together, each peer by its record."""
        return await decide(
            call,
            namespace,
            lambda mem: mem.vote(
                question,
                answers,
                topic=topic,
                among=among,
                canon=canon,
                min_confidence=min_confidence,
                after=after,
                ref=ref,
            ),
        )


def _add_panels(server: MCPServer[Any], memories: ToolMemories) -> None:
    panels = OpenPanels()

    @server.tool(annotations=_WRITES)
    async def ask(
        call: AnyCall,
        question: Question = None,
        topic: Topics = None,
        among: Among = None,
        canon: Canon = "auto",
        explore: Annotated[
            bool, Field(description="Set it where only the peers that were asked will be labelled.")
        ] = False,
        change: Annotated[
            float,
            Field(ge=0.0, le=1.0, description="Enough once the rest change the answer with this chance."),
        ] = CHANGE,
        confidence: Annotated[
            float | None, Field(ge=0.0, le=1.0, description="Enough as well once it is this sure.")
        ] = None,
        calls: Annotated[int | None, Field(ge=1, description="Ask at most so many peers.")] = None,
        ref: Annotated[
            requests.Name | None,
            Field(description="A name of your own for the task; the same one again goes on where it stood."),
        ] = None,
        namespace: Namespace = None,
    ) -> PanelStep:
        """Begin to ask peers one after the other: next is whom to ask. Give each answer to add_answer."""
        where, name = memories.namespace_of(namespace), ref or f"ask-{token_hex(6)}"
        panel = await memories.write(
            call,
            where,
            lambda mem: mem.ask(
                question,
                topic=topic,
                among=among,
                canon=canon,
                explore=explore,
                change=change,
                confidence=confidence,
                calls=calls,
                ref=name,
            ),
        )
        panels.keep(where, panel)
        memories.wrote(call, where, panel.decision)
        return panel_step(name, panel)

    @server.tool(annotations=_LABELS)
    async def add_answer(
        call: AnyCall,
        ref: Annotated[requests.Name, Field(description="The panel, as ask named it.")],
        peer: Annotated[requests.Name, Field(description="Who answered.")],
        answer: Annotated[requests.Text | None, Field(description="What it said; null where it failed.")],
        namespace: Namespace = None,
    ) -> PanelStep:
        """Give a peer's answer to a panel: next is whom to ask now, null once the answers are enough."""
        where = memories.namespace_of(namespace)

        def add(mem: SigmaMem) -> Panel:
            panel = _open_panel(panels, mem, where, ref)
            panel.add(peer, answer)
            return panel

        panel = await memories.write(call, where, add)
        memories.wrote(call, where, panel.decision)
        return panel_step(ref, panel)


def _open_panel(panels: OpenPanels, mem: SigmaMem, namespace: str, ref: str) -> Panel:
    try:
        return panels.find(namespace, mem.decision(ref).event)
    except (RefusedError, UnknownDecisionError) as error:
        raise UnknownDecisionError(
            f"no panel with ref {ref!r} is open here; expected one that ask began; "
            f"call ask with the question and ref {ref!r}"
        ) from error


def _add_feedback(server: MCPServer[Any], memories: ToolMemories) -> None:
    @server.tool(annotations=_LABELS)
    async def record_feedback(
        call: AnyCall,
        decision: Known,
        labels: Annotated[
            dict[requests.Name, requests.Label] | None,
            Field(
                min_length=1,
                description="Peer → true, false, or -1 (wrong) to 1 (right); leave out who is not known.",
            ),
        ] = None,
        scores: Annotated[
            dict[requests.Name, requests.Score] | None,
            Field(min_length=1, description="In place of labels: peer → 0 (wrong) to 1 (right)."),
        ] = None,
        id: Annotated[
            requests.Name | None, Field(description="Of this feedback, for senders that retry.")
        ] = None,
        amend: Annotated[bool, Field(description="Replace what you said of these peers before.")] = False,
        namespace: Namespace = None,
    ) -> responses.FeedbackBody:
        """Say which peers were right on a task, now or late: this is what the memory learns from."""
        where, source = memories.namespace_of(namespace), memories.source_of(call)
        taken = await memories.write(
            call,
            where,
            lambda mem: mem.feedback(
                decision, labels, scores=scores, source=source, id=id, amend=amend, wait=False
            ),
        )
        memories.wrote(call, where, taken)
        return responses.FeedbackBody.model_validate(feedback_body(taken))


def _add_looks(server: MCPServer[Any], memories: ToolMemories) -> None:
    @server.tool(annotations=_LOOKS)
    async def explain(
        call: AnyCall,
        decision: Known,
        peer: Annotated[
            requests.Name | None, Field(description="Whose score; the chosen one by default.")
        ] = None,
        top: Annotated[int, Field(ge=0, le=100, description="How many past events to list.")] = 5,
        namespace: Namespace = None,
    ) -> responses.ExplanationBody:
        """Name the past events that weighed most in a decision."""
        where = memories.namespace_of(namespace)
        found = await memories.look(call, where, lambda mem: mem.explain(decision, peer=peer, top=top))
        return responses.ExplanationBody.model_validate(finite(explanation_body(found)))

    @server.tool(annotations=_LOOKS)
    async def trust(
        call: AnyCall, question: Question = None, topic: Topics = None, namespace: Namespace = None
    ) -> responses.TrustBody:
        """How far each peer can be trusted: at a question, on a topic or, with neither, whatever the task."""
        where = memories.namespace_of(namespace)

        def look(mem: SigmaMem) -> dict[str, Any]:
            if question is None and topic is None:
                return {"trust": mem.table([]).to_dict()["overall"]}
            return {"trust": mem.trust(question, topic=topic).to_dict()}

        return responses.TrustBody.model_validate(finite(await memories.look(call, where, look)))
