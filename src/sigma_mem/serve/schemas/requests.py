"""What requests hold."""

from base64 import b64decode
from binascii import Error as NotBase64
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, StrictBool

from sigma_mem.answers.canon import Kind
from sigma_mem.decide.panel import CHANGE
from sigma_mem.errors import InputError
from sigma_mem.events import Answer, FloatArray

Text = Annotated[str, Field(max_length=1_000_000)]
Name = Annotated[str, Field(min_length=1, max_length=256)]
Message = dict[str, Any]
Label = StrictBool | Annotated[float, Field(strict=True, ge=-1.0, le=1.0)]
Score = Annotated[float, Field(strict=True, ge=0.0, le=1.0)]
QUESTION = "What is 17 * 23?"
_OF_EVERY_TASK = ("topic", "among", "after", "ref")
_QUICK_CHARACTERS = 20_000


class _Body(BaseModel):
    """A request's body: unknown fields are refused, so that a misspelt option is not silently ignored."""

    model_config = ConfigDict(extra="forbid")


class SentAnswer(_Body):
    """An answer whose canonical form the caller knows."""

    text: Text
    canon: Text | None = None


class BudgetBody(_Body):
    """An amount to spend over a number of events, or over seconds."""

    amount: float = Field(gt=0.0)
    events: int | None = Field(None, ge=1)
    seconds: float | None = Field(None, gt=0.0)
    name: Name = "budget"


class _Task(_Body):
    question: Text | list[Message] | None = Field(
        None, description="The task: text, or chat messages that end with it.", examples=[QUESTION]
    )
    phi: list[float] | Text | None = Field(
        None,
        description="The direction φ in place of a question: numbers, or base64 of little-endian float64.",
    )
    after: Name | None = Field(None, description="An earlier decision on the same task: both are one event.")
    topic: Name | list[Name] | None = Field(
        None, description="What the caller knows of the kind of task: one, or several.", examples=["law"]
    )
    among: list[Name] | None = Field(None, min_length=1, description="Choose among these peers only.")
    ref: Name | None = Field(None, description="The caller's own name of the event, such as a trace's id.")

    def options(self, *names: str) -> dict[str, Any]:
        """The options that were given, as arguments of a session's method."""
        given = self.model_fields_set.intersection((*_OF_EVERY_TASK, *names))
        return {"phi": decoded_phi(self.phi)} | {name: getattr(self, name) for name in given}


class RouteRequest(_Task):
    """Choose a peer before anyone answers."""

    read: Name = Field("calibrated-route", description="How to choose.")
    explore: bool = Field(
        False, description="Try the others too, where only the chosen peer will be labelled."
    )
    max_cost: float | None = Field(None, ge=0.0, description="Only peers whose call costs this at most.")
    max_latency: float | None = Field(None, ge=0.0, description="Only peers that take this many seconds.")
    value: float | None = Field(None, ge=0.0, description="What a right answer is worth, less its cost.")
    min_prob: float | None = Field(None, ge=0.0, le=1.0, description="The cheapest peer this likely right.")
    budget: BudgetBody | None = Field(None, description="What all such routes may cost together.")


class VoteRequest(_Task):
    """Choose among answers."""

    answers: dict[Name, Text | SentAnswer | None] = Field(
        description="Peer → answer; null where it gave none.",
        examples=[{"gemma": "391", "phi": "391", "coder": "381"}],
    )
    canon: Kind = Field("auto", description="How answers are compared.")
    min_confidence: float | None = Field(
        None, ge=0.0, le=1.0, description="Abstain where decisions as sure as this are right less often."
    )

    @property
    def is_quick(self) -> bool:
        """Whether the answers are compared in microseconds: no mathematics to parse, no long texts."""
        texts = (
            answer.text if isinstance(answer, SentAnswer) else answer for answer in self.answers.values()
        )
        return self.canon != "math" and sum(len(text or "") for text in texts) <= _QUICK_CHARACTERS

    def given(self) -> dict[str, str | Answer | None]:
        """The answers, as a session takes them."""
        return {peer: sent_answer(answer) for peer, answer in self.answers.items()}


class WeighedVoteRequest(VoteRequest):
    """Choose among answers by a named read."""

    read: Name = Field("calibrated-vote", description="How to weigh them.")


class VotesRequest(_Body):
    """Answers whose supporters are counted."""

    answers: dict[Name, Text | SentAnswer | None]
    question: Text | list[Message] | None = None
    phi: list[float] | Text | None = None
    canon: Kind = "auto"


class AskRequest(_Task):
    """Ask peers one after the other."""

    OPTIONS: ClassVar = ("explore", "canon", "change", "confidence", "calls")
    explore: bool = Field(
        False, description="Draw the first peer, where only who was asked will be labelled."
    )
    canon: Kind = Field("auto", description="How answers are compared.")
    change: float = Field(
        CHANGE, ge=0.0, le=1.0, description="Stop once the rest change the answer with this chance at most."
    )
    confidence: float | None = Field(None, ge=0.0, le=1.0, description="Stop as well once it is this sure.")
    calls: int | None = Field(None, ge=1, description="Ask at most so many.")


class AddRequest(_Body):
    """A peer's answer."""

    panel: Name = Field(description="As `ask` named it: the id of the event.")
    peer: Name
    answer: Text | SentAnswer | None = Field(description="null where the peer failed.")

    @property
    def is_quick(self) -> bool:
        """Whether the answer is compared in microseconds."""
        return isinstance(self.answer, SentAnswer) or len(self.answer or "") <= _QUICK_CHARACTERS


class EncodeRequest(_Body):
    """A question to turn into φ."""

    question: Text | list[Message] = Field(examples=[QUESTION])


class TrustRequest(_Body):
    """Where to look: a question, or φ."""

    question: Text | list[Message] | None = Field(None, examples=[QUESTION])
    phi: list[float] | Text | None = None
    topic: Name | list[Name] | None = None


class FeedbackRequest(_Body):
    """Who was right. The source is the API key that is used, never the body."""

    decision: Name = Field(description="Any decision on the event, or its ref.")
    labels: dict[Name, Label] | None = Field(
        None,
        min_length=1,
        description="Peer → true, false, or -1 (wrong) to 1 (right); leave out who has no label.",
        examples=[{"gemma": True, "coder": False}],
    )
    scores: dict[Name, Score] | None = Field(
        None, min_length=1, description="In place of labels: peer → 0 (wrong) to 1 (right)."
    )
    id: Name | None = Field(None, description="Of this feedback, for senders that retry.")
    amend: bool = Field(False, description="Replace what this key said of these peers before.")


class FeedbackBatch(_Body):
    """Several at once: one wait for the disk."""

    items: list[FeedbackRequest] = Field(min_length=1)


class NamespaceRequest(_Body):
    """What a new memory is made of."""

    peers: list[Name] = Field(min_length=1, max_length=1024, examples=[["gemma", "phi", "coder"]])
    rank: int | None = Field(None, ge=1, le=4096, description="Without an encoder: the dimension of every φ.")
    encoder: Name | None = Field(None, description="static (default), hashed or sentence.")
    settings: dict[str, Any] | None = Field(
        None,
        description="Decay, step sizes, prior; recorded with the memory.",
        examples=[{"trusted": ["ci"]}],
    )


class PriceRequest(_Body):
    """What a call to a peer costs."""

    peer: Name
    per_call: float = Field(0.0, ge=0.0)
    per_input_token: float = Field(0.0, ge=0.0)
    per_output_token: float = Field(0.0, ge=0.0)
    output_tokens: float = Field(300.0, ge=0.0, description="How long its answers are, at first.")
    latency: float | None = Field(None, ge=0.0, description="Seconds.")


class PeerRequest(_Body):
    """A peer that joins or leaves the pool."""

    peer: Name = Field(examples=["qwen"])


class JoinRequest(PeerRequest):
    """A peer that joins the pool."""

    returning: bool = Field(False, description="Needed for a peer that was removed before.")


class ResetRequest(PeerRequest):
    """A model that was updated under its name."""

    keep: float = Field(0.2, ge=0.0, le=1.0, description="The share of its record that still counts.")


class RenameRequest(PeerRequest):
    """A peer that gets another name."""

    name: Name


class ReplaceRequest(ResetRequest):
    """A peer that another takes the place of."""

    by: Name


class ForgetRequest(_Body):
    """Which events to forget: one of the three."""

    decisions: list[Name] | None = Field(None, description="Ids of decisions, or refs of events.")
    before: Annotated[str, Field(max_length=64)] | float | None = Field(
        None, description="All decided before: seconds since 1970, or a date."
    )
    text: Text | None = Field(None, description="All in whose question or answers this occurs.")


class SourceRequest(_Body):
    """Whose feedback is meant."""

    source: Name = Field(examples=["intern"])


class ServedRequest(_Body):
    """Who really answered, where that was not the peer that was chosen."""

    decision: Name = Field(description="A decision, or the ref of its event.")
    peer: Name | None = Field(None, description="Who answered; the chosen peer, if left out.")
    cost: float | None = Field(None, ge=0.0, description="What the call really cost.")
    latency: float | None = Field(None, ge=0.0, description="How many seconds it took.")


def sent_answer(answer: str | SentAnswer | None) -> str | Answer | None:
    """An answer of a request, as a session takes it."""
    return Answer(answer.text, answer.canon) if isinstance(answer, SentAnswer) else answer


def decoded_phi(phi: list[float] | str | None) -> FloatArray | None:
    """φ from a request, as numbers or as base64."""
    if phi is None:
        return None
    if isinstance(phi, str):
        try:
            raw = b64decode(phi, validate=True)
        except (NotBase64, ValueError):
            raw = b"?"
        if len(raw) % 8:
            raise InputError(
                "phi is not base64 of little-endian float64 numbers; expected that, or a list of numbers"
            )
        return np.frombuffer(raw, dtype="<f8").astype(np.float64)
    return np.array(phi, dtype=np.float64)
