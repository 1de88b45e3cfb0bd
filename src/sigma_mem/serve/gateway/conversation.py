"""How a completion is tied to the memory: the turn that decides it, and feedback by its id."""

import asyncio
import secrets
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from sigma_mem.errors import InputError, StoreError, UnknownDecisionError
from sigma_mem.events import Decision
from sigma_mem.serve.context import Context
from sigma_mem.serve.gateway.protocol import Body, ChatReply, Name, bad_request, headers_of, mark_calls
from sigma_mem.serve.gateway.upstream import Calls
from sigma_mem.serve.keys import Principal
from sigma_mem.serve.memories import ServedMemory


class Turn:
    """One chat request that the memory decides.

    Attributes
    ----------
    id : str
        Of the completion; the `ref` of the decision.
    question : str
        The text that φ is made of.
    peers : tuple of str
        Of the memory.
    candidates : list of str
        Peers of the memory that are upstreams, allowed by the request, and working.
    chat, calls, memory
    """

    def __init__(self, context: Context, calls: Calls, memory: ServedMemory) -> None:
        self.id = f"chatcmpl-{secrets.token_hex(12)}"
        self.chat, self.calls, self.memory = calls.chat, calls, memory
        self.question = calls.chat.question()
        self.peers = memory.mem.peers
        self.candidates = self._candidates()
        self._memories, self._metrics = context.memories, context.metrics
        self._epoch = context.memories.store.epoch(memory.namespace)
        self._saving: asyncio.Future[Any] | None = None

    def _candidates(self) -> list[str]:
        pool, among = self.calls.pool, self.chat.options.among
        known = [peer for peer in self.peers if peer in pool.peers]
        if not known:
            raise bad_request(f"no upstream is a peer of {self.memory.namespace!r}; add them to it first")
        if among is not None:
            if unknown := sorted(set(among) - set(known)):
                raise bad_request(f"among names {unknown[0]!r}; expected some of {known}")
            known = [peer for peer in known if peer in among]
        return pool.usable(known)

    async def peer_in_loop(self) -> str | None:
        """The peer that called the tools whose results this request brings, if it can still be asked."""
        earlier = self.chat.in_loop
        if earlier is None:
            return None
        try:
            decision = await self.memory.slow(lambda mem: mem.decision(earlier))
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
        confidence = decision.confidence if peer == decision.peer else decision.probs[peer]
        failures = self.calls.failures
        return {
            "decision": decision.id,
            "peer": peer,
            "confidence": round(confidence, 6),
            "attempts": self.calls.attempts,
            "cost": self.calls.cost,
            "failed": {name: error.reason for name, error in failures.items()} if failures else {},
        }

    async def charge(self, decision: Decision, peer: str) -> None:
        """Record who served and, if that is known, what it cost."""
        cost = self.calls.costs.get(peer)
        await self.memory.quick(lambda mem: mem.served(decision, peer, cost=cost, wait=False))

    async def reply(self, decision: Decision, peer: str, completion: Body) -> ChatReply:
        """The peer's completion under our id, once the decision is on disk."""
        summary = await self.settle(decision, peer)
        completion |= {"id": self.id, "model": peer, "sigma_mem": summary}
        if (usage := self.calls.usage()) is not None:
            completion["usage"] = usage
        mark_calls(completion["choices"], self.id)
        return ChatReply(completion, headers_of(summary))


class CompletionFeedback(BaseModel):
    """How good a completion was: a score of what was served, or labels of several peers."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"id": "chatcmpl-5f2b8a9c0d1e2f3a4b5c6d7e", "score": 1.0}]},
    )

    id: Name = Field(description="Of the completion, or of the decision.")
    score: Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)] | None = Field(
        None, description="How good the answer that was served is: 0 is wrong, 1 is right."
    )
    labels: Annotated[dict[Name, bool | int | float], Field(min_length=1, max_length=1000)] | None = Field(
        None, description="Peer → true, false, or a number from -1 to 1."
    )
    comment: Annotated[str, StringConstraints(max_length=10_000)] | None = Field(
        None, description="For readers of the audit."
    )
    amend: bool = Field(False, description="Replace what the same key said before.")
    namespace: Name | None = Field(None, description="Where the completion was decided.")

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.score is None) == (self.labels is None):
            raise ValueError("expected either score or labels")
        return self


async def record_feedback(
    memory: ServedMemory, given: CompletionFeedback, who: Principal, idempotency_key: str | None
) -> Body:
    """Take feedback, and return once it is on disk. The source is the key that was used.

    UnknownDecisionError if no decision has this id, ConflictError if it contradicts what the same source
    said, or what came under the same idempotency key.
    """
    id = None if idempotency_key is None else f"{who.name}:{idempotency_key}"
    labels: dict[str, Any] = dict(given.labels or {})
    if given.score is not None:
        decision = await memory.slow(lambda mem: mem.decision(given.id))
        labels = dict.fromkeys(peers_that_said_it(decision), 2.0 * given.score - 1.0)
    done = await memory.slow(
        lambda mem: mem.feedback(given.id, labels, source=who.name, id=id, amend=given.amend)
    )
    return {
        "object": "sigma_mem.feedback",
        "id": done.id,
        "event": done.event,
        "labels": dict(done.labels),
        "source": done.source,
    }


def peers_that_said_it(decision: Decision) -> list[str]:
    """Whose answer a score is about: the peer that served, and all whose answer was equal in a vote."""
    served = decision.served or decision.peer
    if served is None:
        raise InputError(
            f"decision {decision.id!r} served nobody's answer; expected labels instead of a score"
        )
    canon = decision.canons.get(served)
    if canon is None:
        return [served]
    return [peer for peer, other in decision.canons.items() if other == canon]
