"""Feedback by the id of a response."""

from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from sigma_mem.errors import InputError
from sigma_mem.events import Decision
from sigma_mem.serve.calls import id_of_caller
from sigma_mem.serve.gateway.message import Body
from sigma_mem.serve.gateway.protocol import Name, own_id
from sigma_mem.serve.keys import Principal
from sigma_mem.serve.memories import ServedMemory


class ResponseFeedback(BaseModel):
    """How good a response was: a score of what was served, or labels of several peers."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"id": "chatcmpl-5f2b8a9c0d1e2f3a4b5c6d7e", "score": 1.0}]},
    )

    id: Name = Field(description="Of the response, or of the decision.")
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
    namespace: Name | None = Field(None, description="Where the response was decided.")

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.score is None) == (self.labels is None):
            raise ValueError("expected either score or labels")
        return self


async def record_feedback(
    memory: ServedMemory, given: ResponseFeedback, who: Principal, idempotency_key: str | None
) -> Body:
    """Take feedback, and return once it is on disk. The source is the key that was used.

    UnknownDecisionError if no decision has this id, ConflictError if it contradicts what the same source
    said, or what came under the same idempotency key.
    """
    id = id_of_caller(who, idempotency_key)
    response = own_id(given.id)
    labels: dict[str, Any] = dict(given.labels or {})
    if given.score is not None:
        decision = await memory.slow(lambda mem: mem.decision(response))
        labels = dict.fromkeys(peers_that_said_it(decision), 2.0 * given.score - 1.0)
    done = await memory.slow(
        lambda mem: mem.feedback(response, labels, source=who.name, id=id, amend=given.amend)
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
