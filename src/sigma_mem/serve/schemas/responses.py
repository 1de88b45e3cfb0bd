"""What responses look like."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from sigma_mem.serve.schemas.requests import SentAnswer


class PricesBody(BaseModel):
    """Prices by peer."""

    prices: dict[str, dict[str, float | None]]


class SpentBody(BaseModel):
    """What was spent: in all, by peer, and by day and peer."""

    total: float
    by_peer: dict[str, float]
    by_day: dict[str, dict[str, float]]


class ForgottenBody(BaseModel):
    """How many events were forgotten."""

    events: int


class AdviceBody(BaseModel):
    """What there is to say about how a memory is used."""

    advice: list[dict[str, str]]


class _Out(BaseModel):
    model_config = ConfigDict(extra="allow")


class DecisionBody(_Out):
    """What one read of the memory returned."""

    id: str
    event: str = Field(description="The event: the id of its first decision.")
    read: str
    phi: str = Field(description="φ: base64 of little-endian float64.")
    peer: str | None = Field(description="Whom to trust; null where the decision abstains.")
    answer: str | None
    scores: dict[str, float]
    probs: dict[str, float] = Field(description="Calibrated probability of being right here, by peer.")
    effective: dict[str, float] = Field(description="How many labels are behind that.")
    confidence: float
    propensity: float
    tick: float
    time: float
    question: str | None
    canons: dict[str, str | None]
    features: dict[str, list[float]]
    reads: dict[str, str]
    details: dict[str, Any]
    ref: str | None
    served: str | None
    cost: float | None = Field(description="What the event's calls cost, or are expected to.")


class PanelBody(BaseModel):
    """Where a panel stands."""

    panel: str
    next: str | None = Field(description="The peer to ask now; null once it is enough.")
    change: float = Field(description="The chance that the rest would change the answer.")
    answers: dict[str, SentAnswer]
    decision: DecisionBody


class VotesBody(BaseModel):
    """Independent votes by canonical answer."""

    votes: dict[str, float]


class FeedbackBody(_Out):
    """Feedback as it was taken; it is on disk."""

    id: str
    event: str
    labels: dict[str, float]
    source: str = Field(description="The name of the API key.")
    time: float
    amends: bool


class ErrorDetail(BaseModel):
    """What went wrong: a line for people, a word for programs."""

    message: str
    type: str
    code: str
    param: str | None


class ErrorBody(BaseModel):
    """The body of every refusal."""

    error: ErrorDetail


class BatchResult(BaseModel):
    """One item of a batch: what was taken, or why not."""

    feedback: FeedbackBody | None = None
    error: ErrorDetail | None = None


class BatchBody(BaseModel):
    """Results in the order of the items."""

    results: list[BatchResult]


class NamespaceBody(_Out):
    """A namespace's memory."""

    name: str
    peers: list[str]
    events: int
    rank: int
    encoder: dict[str, str]
    settings: dict[str, Any]
    keep_text: bool


class NamesBody(BaseModel):
    """Namespaces that the key may read."""

    namespaces: list[str]


class PhiBody(BaseModel):
    """φ of a question: base64 of little-endian float64."""

    phi: str


class DecisionsBody(BaseModel):
    """Decisions, newest first."""

    decisions: list[DecisionBody]


class LabelsBody(BaseModel):
    """Labels that an event has now, by peer."""

    labels: dict[str, float]


class LinesBody(BaseModel):
    """How many lines of feedback a source wrote."""

    source: str
    lines: int


class PeerTrustBody(_Out):
    """How far a peer can be trusted."""

    prob: float
    interval: list[float] = Field(description="Where prob lies with 95 %.")
    effective: float = Field(description="Labelled events behind it, as far as they are not forgotten.")
    labels: int = Field(description="Events on which it was labelled at all.")
    last: float | None = Field(description="When its newest label came, in seconds since 1970.")


class TrustBody(BaseModel):
    """Trust by peer."""

    trust: dict[str, PeerTrustBody]


class TableBody(_Out):
    """Trust by peer, overall and by topic."""

    events: int
    overall: dict[str, PeerTrustBody]
    topics: dict[str, dict[str, PeerTrustBody]]


class HistoriesBody(BaseModel):
    """Records by peer."""

    histories: dict[str, list[dict[str, Any]]]


class ExplanationBody(_Out):
    """Why a peer had the score it had: terms of past events."""

    decision: str
    peer: str
    chosen: str
    score: float
    prob: float | None
    effective: float
    text: str = Field(description="The same in words.")


class SourcesBody(BaseModel):
    """Everyone who gave feedback, and what that is worth."""

    sources: list[dict[str, Any]]


class DriftsBody(BaseModel):
    """Peers whose recent record left their long one."""

    drift: list[dict[str, Any]]
