"""LangChain and LangGraph: a middleware for agents, and a node that sends a graph to one of its agents."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

from sigma_mem.extras import require
from sigma_mem.integrations.chooser import REF, Chooser, Memory, Pick

_FOR = {"extra": "langchain", "purpose": "the middleware for LangChain"}
_AgentMiddleware: Any = require("langchain.agents.middleware", **_FOR).AgentMiddleware


class SigmaMiddleware(_AgentMiddleware):  # type: ignore[misc]
    """Chooses the model of every answer; if its call fails, the next best one answers.

    The event is named by ``config["configurable"]["sigma_ref"]`` or by the memory. Either way the answer has
    it: ``message.response_metadata["sigma_ref"]``. Calls of tools and what follows stay on their model.
    `models` maps peers to chat models; the options are those of `Chooser`.
    """

    def __init__(self, memory: Memory, models: Mapping[str, Any], **options: Any) -> None:
        super().__init__()
        self.chooser, self.models = Chooser(memory, **options), models
        self.feedback = self.chooser.feedback

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """Call the chosen model, or another if it fails."""
        choice = self.chooser.choose(**self._task(request.messages))
        return _stamped(*self.chooser.call(choice, lambda peer: handler(self._with(peer, request))))

    async def awrap_model_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        """The same for coroutines."""
        chooser = self.chooser
        choice = await chooser.later(chooser.choose, **self._task(request.messages))
        return _stamped(*await chooser.acall(choice, lambda peer: handler(self._with(peer, request))))

    def _with(self, peer: str, request: Any) -> Any:
        return request.override(model=self.models[peer])

    def _task(self, messages: Sequence[Any]) -> dict[str, Any]:
        return {**_task(messages), "among": self.models}


def sigma_node(memory: Memory, nodes: Iterable[str], **options: Any) -> Callable[[Any], Any]:
    """A node of a graph over messages that goes to one of the nodes, which are peers of the memory.

    The event is named as for `SigmaMiddleware`, and the state's "sigma_ref", if the graph has one, says how.
    """
    command = require("langgraph.types", **_FOR).Command
    chooser, among = Chooser(memory, **options), list(nodes)

    async def choose(state: Any) -> Any:
        choice = await chooser.later(chooser.choose, **_task(state["messages"]), among=among)
        return command(goto=choice.peer, update={REF: choice.ref})

    return choose


def _task(messages: Sequence[Any]) -> dict[str, Any]:
    """The user's last question, and the event's name: that of an answer since then, or the caller's."""
    asked = max((at for at, message in enumerate(messages) if message.type == "human"), default=0)
    since = (message.response_metadata.get(REF) for message in messages[asked:])
    named = next((ref for ref in since if ref), None) or _configured().get(REF)
    return {"question": str(messages[asked].text), "ref": named}


def _configured() -> Mapping[str, Any]:
    config = require("langgraph.config", **_FOR).get_config()
    found: Mapping[str, Any] = config.get("configurable", {})
    return found


def _stamped(response: Any, choice: Pick) -> Any:
    """The response, with the event's name in its messages."""
    for message in getattr(response, "result", [response]):
        message.response_metadata[REF] = choice.ref
    return response
