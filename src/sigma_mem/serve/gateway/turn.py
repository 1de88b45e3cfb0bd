"""One chat request that the memory decides."""

import asyncio
import secrets
from typing import Any

from sigma_mem.errors import StoreError, UnknownDecisionError
from sigma_mem.events import Decision
from sigma_mem.serve.context import Context
from sigma_mem.serve.failures import RefusedError
from sigma_mem.serve.gateway.calls import Calls
from sigma_mem.serve.memories import ServedMemory

Body = dict[str, Any]


class Turn:
    """A request, its calls, and the memory that decides it.

    Attributes
    ----------
    id : str
        Of the completion; the `ref` of the decision.
    explore : bool
        Whether peers that are not the best so far are tried as well.
    chat, calls, memory
    """

    def __init__(self, context: Context, calls: Calls, memory: ServedMemory) -> None:
        self.id = f"chatcmpl-{secrets.token_hex(12)}"
        self.chat, self.calls, self.memory = calls.chat, calls, memory
        asked = calls.chat.options.explore
        self.explore = context.config.explore if asked is None else asked
        self._memories, self._metrics = context.memories, context.metrics
        self._epoch = context.memories.store.epoch
        self._saving: asyncio.Future[Any] | None = None

    def candidates(self) -> list[str]:
        """Peers of the memory that are upstreams, allowed by the request, and working."""
        pool, among = self.calls.pool, self.chat.options.among
        known = [peer for peer in self.memory.mem.peers if peer in pool]
        if not known:
            where = self.memory.namespace
            raise RefusedError(
                400, "invalid_request", f"no upstream is a peer of {where!r}; add them to it first"
            )
        if among is not None and (unknown := sorted(set(among) - set(known))):
            raise RefusedError(
                400, "invalid_request", f"among names {unknown[0]!r}; expected some of {known}"
            )
        return pool.usable(known if among is None else [peer for peer in known if peer in among])

    async def peer_in_loop(self, candidates: list[str]) -> str | None:
        """The peer that called the tools whose results this request brings, if it can still be asked."""
        earlier = self.chat.in_loop
        if earlier is None:
            return None
        try:
            decision = await self.memory.slow(lambda mem: mem.decision(earlier))
        except UnknownDecisionError:
            return None
        peer = decision.served or decision.peer
        return peer if peer in candidates else None

    def start_saving(self) -> asyncio.Future[Any]:
        """Have the disk written from now on, while an upstream is called."""
        self._saving = asyncio.ensure_future(self._memories.flush())
        # Where nobody answers nobody asks how it ended; asyncio would complain.
        self._saving.add_done_callback(lambda saving: saving.cancelled() or saving.exception())
        return self._saving

    async def settle(self, decision: Decision, peer: str) -> None:
        """Record who served, where that is not who was chosen, and its cost.

        Returns once decision and peer are on disk. The cost is written behind: until then the ledger has the
        one that was expected.
        """
        self._metrics.decided(decision.read)
        if peer != decision.peer or peer in self.calls.costs:
            await self.charge(decision, peer)
        await (self.start_saving() if self._saving is None or peer != decision.peer else self._saving)
        if self._memories.store.epoch != self._epoch:
            raise StoreError("the store had to drop what was just written; try again")

    async def charge(self, decision: Decision, peer: str) -> None:
        """Record who served and, where that is known, what it cost."""
        cost = self.calls.costs.get(peer)
        await self.memory.quick(lambda mem: mem.served(decision, peer, cost=cost, wait=False))

    def summary(self, decision: Decision, peer: str) -> Body:
        """What the response says of the decision, in its field and in its headers."""
        confidence = decision.confidence if peer == decision.peer else decision.probs[peer]
        return {
            "decision": decision.id,
            "peer": peer,
            "confidence": round(confidence, 6),
            "attempts": self.calls.attempts,
            "cost": self.calls.cost,
            "failed": {name: error.reason for name, error in self.calls.failures.items()},
        }
