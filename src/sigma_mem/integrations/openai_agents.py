"""OpenAI Agents: a model that is several, and the provider of ``sigma/…`` names."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

from sigma_mem.extras import require
from sigma_mem.integrations.chooser import REF, Chooser, Memory, Pick

_interface = require("agents.models.interface", extra="openai-agents", purpose="the model for OpenAI Agents")
_Model: Any = _interface.Model
_ModelProvider: Any = _interface.ModelProvider
_CALLS = ("function_call", "function_call_output")
_NO_ID = require("agents.models.fake_id", extra="openai-agents", purpose="its models").FAKE_RESPONSES_ID


class SigmaModel(_Model):  # type: ignore[misc]
    """Chooses the model of every answer; if its call fails, the next best one answers.

    The event is named by ``ModelSettings(metadata={"sigma_ref": …})``, or else by the response's id:
    ``model.feedback(result.last_response_id, True)``. Calls of tools and what follows stay on their model.
    `models` maps peers to models; the options are those of `Chooser`.
    """

    def __init__(self, memory: Memory, models: Mapping[str, Any], **options: Any) -> None:
        self.chooser, self.models = Chooser(memory, **options), models
        self.feedback = self.chooser.feedback

    async def get_response(
        self, system_instructions: str | None, input: Any, model_settings: Any, *args: Any, **kwargs: Any
    ) -> Any:
        """The response of the chosen model, or of another if it fails."""
        rest = (system_instructions, input, model_settings, *args)
        response, choice = await self.chooser.acall(
            await self._choose(input, model_settings),
            lambda peer: self.models[peer].get_response(*rest, **kwargs),
        )
        id = await self._answered(choice, model_settings, response.response_id, response.output)
        response.response_id = id
        return response

    async def stream_response(
        self, system_instructions: str | None, input: Any, model_settings: Any, *args: Any, **kwargs: Any
    ) -> AsyncIterator[Any]:
        """The same as a stream; a model that fails after its first event is not passed over."""
        rest = (system_instructions, input, model_settings, *args)
        async for event, choice in self.chooser.astream(
            await self._choose(input, model_settings),
            lambda peer: self.models[peer].stream_response(*rest, **kwargs),
        ):
            if event.type == "response.completed":
                answer = event.response
                answer.id = await self._answered(choice, model_settings, answer.id, answer.output)
            yield event

    async def _choose(self, input: Any, settings: Any) -> Pick:
        items = [{"role": "user", "content": input}] if isinstance(input, str) else input
        asked = [item for item in items if item.get("role") == "user"][-1:]
        calls = [item["call_id"] for item in items if item.get("type") in _CALLS]
        ref = _given(settings) or (calls[-1] if calls and items[-1].get("type") == _CALLS[1] else None)
        return await self.chooser.later(self.chooser.choose, asked, self.models, ref=ref)

    async def _answered(self, choice: Pick, settings: Any, id: str | None, output: Any) -> str:
        """The response's id, which names the event as well; chat completions have none of their own."""
        self.chooser.keep(choice, *(item.call_id for item in output if item.type == _CALLS[0]))
        if id is None or id == _NO_ID:
            return choice.ref
        if _given(settings) is None:
            await self.chooser.later(self.chooser.alias, choice, id)
        return id


class SigmaProvider(_ModelProvider):  # type: ignore[misc]
    """Pools by name for `MultiProviderMap`: with the prefix "sigma", ``Agent(model="sigma/default")``."""

    def __init__(self, pools: Mapping[str, SigmaModel]) -> None:
        self.pools = pools

    def get_model(self, model_name: str | None) -> SigmaModel:
        """The pool of this name, or the only one."""
        return self.pools[model_name] if model_name else next(iter(self.pools.values()))


def _given(settings: Any) -> str | None:
    ref: str | None = (settings.metadata or {}).get(REF)
    return ref
