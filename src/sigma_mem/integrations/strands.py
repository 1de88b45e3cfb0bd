"""Strands: a routing strategy for `ModelRouter`."""

from collections.abc import Mapping
from typing import Any

from sigma_mem.integrations.chooser import REF, Chooser, Memory, Pick


class SigmaStrategy:
    """Chooses among the candidates of a `ModelRouter`, whose names are peers of the memory.

    The event is named by ``invocation_state["sigma_ref"]``. Without it the strategy leaves its `Pick` in
    ``invocation_state["sigma_pick"]``, whose `ref` names the event. The options are those of `Chooser`.
    """

    def __init__(self, memory: Memory, **options: Any) -> None:
        self.chooser = Chooser(memory, **options)
        self.feedback = self.chooser.feedback

    async def select(self, context: Any, **kwargs: Any) -> Any:
        """The candidate to call first, or after those that failed; None if nobody is left."""
        candidates = {candidate.name: candidate for candidate in context.candidates}
        state, choice = context.invocation_state, None
        made = state.get("sigma_pick")
        if context.attempts and isinstance(made, Pick):
            choice = await self.chooser.later(self.chooser.pass_over, made)
        elif not context.attempts:
            said = [message for message in map(_plain, context.messages) if message["content"]]
            choice = await self.chooser.later(self.chooser.choose, said[-1:], candidates, ref=state.get(REF))
        if choice is None:
            return None
        state["sigma_pick"] = choice  # the invocation's own, so that a second ask knows the first
        return candidates[choice.peer]


def _plain(message: Mapping[str, Any]) -> dict[str, Any]:
    """A message as the memory reads it: its texts, without calls of tools and what they gave."""
    return {"role": message["role"], "content": [part for part in message["content"] if "text" in part]}
