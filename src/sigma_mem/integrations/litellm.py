"""LiteLLM: a routing plugin for `Router(plugins=[…])` and for the proxy's ``router_settings``."""

from __future__ import annotations

from typing import Any

from sigma_mem.extras import require
from sigma_mem.integrations.chooser import REF, Chooser, Memory, Pick

_CustomLogger: Any = require(
    "litellm.integrations.custom_logger", extra="litellm", purpose="the plugin for LiteLLM"
).CustomLogger


class SigmaPlugin(_CustomLogger):  # type: ignore[misc]
    """Chooses among the deployments of a model group, whose ``litellm_params.model`` are peers.

    With ``num_retries`` a call that failed goes to the next best one. As a callback as well
    (``litellm.callbacks = [plugin]``) it records costs, and events that the caller did not name by
    ``metadata={"sigma_ref": …}`` can be named by the response's id. The options are those of `Chooser`.
    """

    def __init__(self, memory: Memory, **options: Any) -> None:
        super().__init__()
        self.chooser = Chooser(memory, **options)
        self.feedback = self.chooser.feedback

    async def run(self, context: Any) -> Any:
        """Narrow the candidates to the one to call."""
        chooser, candidates = self.chooser, context.candidate_models
        before = (context.metadata.get("routing_plugin_signals") or {}).get("sigma")
        if isinstance(before, Pick):  # a second try: the router asks again with what it knew
            choice = await chooser.later(chooser.pass_over, before) or before
        else:
            ref, messages = context.metadata.get(REF), context.structured_messages
            asked = [message for message in messages if message.get("role") == "user"][-1:]
            choice = await chooser.later(chooser.choose, asked or messages, candidates, ref=ref)
        context.signals["sigma"], context.candidate_models = choice, [choice.peer]
        return context

    async def async_log_success_event(
        self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any
    ) -> None:
        """Record what the call cost and how long it took, and the response's id."""
        metadata = kwargs["litellm_params"].get("metadata") or {}
        choice = (metadata.get("routing_plugin_signals") or {}).get("sigma")
        if not isinstance(choice, Pick):
            return
        seconds, cost = (end_time - start_time).total_seconds(), kwargs.get("response_cost")
        await self.chooser.later(self.chooser.served, choice, cost=cost, latency=seconds)
        if metadata.get(REF) is None and getattr(response_obj, "id", None):
            await self.chooser.later(self.chooser.alias, choice, response_obj.id)
