"""How one request is tied to the memory: who may answer it, and the decision that its response stands for."""

import asyncio
from collections.abc import Callable
from typing import Any

from sigma_mem.errors import StoreError, UnknownDecisionError
from sigma_mem.events import Decision
from sigma_mem.serve.context import Context
from sigma_mem.serve.gateway.calls import Calls
from sigma_mem.serve.gateway.delivery import Whole
from sigma_mem.serve.gateway.message import Body, new_id
from sigma_mem.serve.gateway.protocol import Stamp, bad_request, headers_of
from sigma_mem.serve.memories import ServedMemory


class Turn:
    """One request that the memory decides.

    Attributes
    ----------
    id : str
        Of the response; the `ref` of the decision.
    question : str
        The text that φ is made of.
    peers : tuple of str
        Of the memory.
    candidates : list of str
        Peers of the memory that are upstreams, allowed by the request, can take it without a loss, and work.
    request, calls, memory
    """

    def __init__(self, context: Context, calls: Calls, memory: ServedMemory) -> None:
        self.id = new_id(calls.request.protocol.prefix)
        self.request, self.calls, self.memory = calls.request, calls, memory
        self.question = calls.request.question()
        self.peers = memory.mem.peers
        self.candidates = self._candidates()
        self._memories, self._metrics = context.memories, context.metrics
        self._epoch = context.memories.store.epoch(memory.namespace)
        self._saving: asyncio.Future[Any] | None = None
        self.on_settled: Callable[[str, int | None], None] = lambda peer, tokens: None
        self.held = ""  # what held the conversation on its peer

    def _candidates(self) -> list[str]:
        pool, among = self.calls.pool, self.request.options.among
        known = [peer for peer in self.peers if peer in pool.peers]
        if not known:
            raise bad_request(f"no upstream is a peer of {self.memory.namespace!r}; add them to it first")
        if among is not None:
            if unknown := sorted(set(among) - set(known)):
                raise bad_request(f"among names {unknown[0]!r}; expected some of {known}")
            known = [peer for peer in known if peer in among]
        able = [peer for peer in known if self.calls.can_take(peer)]
        if not able:
            raise self.calls.taken_by_nobody()
        return pool.usable(able)

    async def peer_of(self, response: str) -> str | None:
        """The peer that gave an earlier response, if it can still be asked."""
        try:
            decision = await self.memory.slow(lambda mem: mem.decision(response))
        except UnknownDecisionError:
            return None
        peer = decision.served or decision.peer
        return peer if peer in self.candidates else None

    def start_saving(self) -> asyncio.Future[Any]:
        """Have the disk written from now on, while an upstream is called."""
        self._saving = asyncio.ensure_future(self._memories.flush(self.memory.namespace))
        # If nobody answers, nobody asks how it ended; asyncio would complain.
        self._saving.add_done_callback(lambda saving: saving.cancelled() or saving.exception())
        return self._saving

    async def settle(self, decision: Decision, peer: str) -> Body:
        """Record who served, if that is not who was chosen, and its cost; returns the response's summary.

        Returns once decision and peer are on disk. The cost is written behind: until then the ledger has the
        one that was expected.
        """
        self._metrics.decided(decision.read)
        if peer != decision.peer or peer in self.calls.costs:
            await self.charge(decision, peer)
        await (self.start_saving() if self._saving is None or peer != decision.peer else self._saving)
        if self._memories.store.epoch(self.memory.namespace) != self._epoch:
            raise StoreError("the store had to drop what was just written; try again")
        self.on_settled(peer, self.calls.seen_tokens.get(peer))
        confidence = decision.confidence if peer == decision.peer else decision.probs[peer]
        failures = self.calls.failures
        return {
            "decision": decision.id,
            "peer": peer,
            "confidence": round(confidence, 6),
            "attempts": self.calls.attempts,
            "cost": self.calls.cost,
            "failed": {name: error.reason for name, error in failures.items()} if failures else {},
            "left_out": self.calls.left_out,
            "held": self.held if peer == decision.peer else "",
        }

    async def charge(self, decision: Decision, peer: str) -> None:
        """Record who served and, if that is known, what it cost."""
        cost = self.calls.costs.get(peer)
        await self.memory.quick(lambda mem: mem.served(decision, peer, cost=cost, wait=False))

    async def reply(self, decision: Decision, peer: str, answer: Body) -> Whole:
        """The peer's answer under our id, once the decision is on disk."""
        summary = await self.settle(decision, peer)
        if (usage := self.calls.usage()) is not None:
            answer = answer | {"usage": usage}
        stamped = self.request.protocol.stamped(answer, self.stamp(peer, summary))
        return Whole(stamped, headers_of(summary))

    def stamp(self, peer: str, summary: Body) -> Stamp:
        """What is written over the peer's answer."""
        return Stamp(self.id, peer, summary, kept=self.request.body.get("store") is not False)
