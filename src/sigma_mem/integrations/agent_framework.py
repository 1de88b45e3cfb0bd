"""Microsoft Agent Framework: a chat middleware for agents, and a selection function for group chats."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

from sigma_mem.extras import require
from sigma_mem.integrations.chooser import REF, Chooser, Memory, Pick

_framework = require("agent_framework", extra="agent-framework", purpose="the middleware for Agent Framework")
_ChatMiddleware: Any = _framework.ChatMiddleware


class SigmaChatMiddleware(_ChatMiddleware):  # type: ignore[misc]
    """Chooses the client of every answer; if its call fails, the next best one answers.

    The event is named by ``options={"metadata": {"sigma_ref": …}}`` or by the memory. Either way the response
    has it: ``response.additional_properties["sigma_ref"]``, in a stream that of every update. `clients` maps
    peers to chat clients; the options are those of `Chooser`.
    """

    def __init__(self, memory: Memory, clients: Mapping[str, Any], **options: Any) -> None:
        self.chooser, self.clients = Chooser(memory, **options), clients
        self.feedback = self.chooser.feedback

    async def process(self, context: Any, call_next: Callable[[], Awaitable[None]]) -> None:
        """Set the result: the response of the chosen client, or of another if it fails."""
        ref = ((context.options or {}).get("metadata") or {}).get(REF)
        choice = await self.chooser.later(
            self.chooser.choose, _asked(context.messages), self.clients, ref=ref
        )
        if context.stream:
            finalizer = _framework.ChatResponse.from_updates
            context.result = _framework.ResponseStream(self._updates(choice, context), finalizer=finalizer)
            return
        context.result, choice = await self.chooser.acall(choice, lambda peer: self._called(peer, context))
        context.result.additional_properties[REF] = choice.ref

    async def _updates(self, choice: Pick, context: Any) -> AsyncIterator[Any]:
        async for update, now in self.chooser.astream(choice, lambda peer: self._called(peer, context)):
            update.additional_properties = {**(update.additional_properties or {}), REF: now.ref}
            yield update

    def _called(self, peer: str, context: Any) -> Any:
        given = {"stream": context.stream, "options": context.options}
        return self.clients[peer].get_response(context.messages, **given)


class SigmaSpeaker:
    """Who speaks next: ``GroupChatBuilder(participants=…, selection_func=SigmaSpeaker(memory))``.

    The participants' names are peers of the memory. `choice` is the last choice. `ref` takes the chat's state
    and returns what names the event of this round; the options are those of `Chooser`.
    """

    def __init__(self, memory: Memory, ref: Callable[[Any], str] | None = None, **options: Any) -> None:
        self.chooser, self._ref = Chooser(memory, **options), ref
        self.feedback = self.chooser.feedback
        self.choice: Pick | None = None

    async def __call__(self, state: Any) -> str:
        """The name of a participant."""
        ref, asked = None if self._ref is None else self._ref(state), _asked(state.conversation)
        self.choice = await self.chooser.later(self.chooser.choose, asked, state.participants, ref=ref)
        return self.choice.peer


def _asked(messages: Any) -> str:
    """The user's last message, or the last text there is."""
    texts = [(message.role, message.text) for message in messages if message.text]
    return str(
        next((text for role, text in reversed(texts) if role == "user"), texts[-1][1] if texts else "")
    )
