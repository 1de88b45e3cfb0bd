"""What the service says of itself: log and audit, numbers for Prometheus, spans for OpenTelemetry."""

import json
import logging
import sys
import time
from bisect import bisect_left
from collections import Counter as Tally
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from logging.handlers import WatchedFileHandler
from pathlib import Path
from typing import Any, get_args
from urllib.parse import urlsplit

from fastapi.telemetry import TelemetryConfig
from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from sigma_mem.errors import InputError, SigmaMemError
from sigma_mem.extras import require
from sigma_mem.serve.config import AlarmKind, Upstream
from sigma_mem.serve.keys import Principal

LOG = logging.getLogger("sigma_mem.serve")
_OURS = ("sigma_mem", "uvicorn", "mcp")


class LogLines(logging.Formatter):
    """A record as one JSON object, or as a line for people; nothing that a client sent can break a line."""

    def __init__(self, for_people: bool) -> None:
        super().__init__()
        self._for_people = for_people

    def format(self, record: logging.LogRecord) -> str:
        """The line; ASCII."""
        at, level = datetime.fromtimestamp(record.created, UTC), record.levelname.lower()
        said, message = getattr(record, "fields", {}), record.getMessage()
        trace = self.formatException(record.exc_info) if record.exc_info else ""
        if self._for_people:
            fields = " ".join(f"{key}={json.dumps(value, default=str)}" for key, value in said.items())
            text = f"{at:%H:%M:%S} {level} {json.dumps(message)[1:-1]} {fields}"
            return f"{text.rstrip()}\n{trace}".rstrip("\n")
        line = {"time": at.isoformat(timespec="milliseconds"), "level": level, "message": message, **said}
        return json.dumps(line | {"trace": trace} if trace else line, default=str)


def start_log(kind: str) -> None:
    """Send our log, and the warnings of the libraries that serve, to standard error."""
    handler: logging.Handler = logging.NullHandler()
    if kind != "off":
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(LogLines(for_people=kind == "text"))
    for name in _OURS:
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.INFO if name == "sigma_mem" else logging.WARNING)


def log_event(message: str, **fields: object) -> None:
    """Log something that happened."""
    LOG.info(message, extra={"fields": fields})


def warn_event(message: str, **fields: object) -> None:
    """Log something that an operator should know at once."""
    LOG.warning(message, extra={"fields": fields})


class Audit:
    """What was written, and by which key: one JSON object a line; nothing without a path.

    Others may rotate the file meanwhile.
    """

    def __init__(self, path: str | None) -> None:
        self._handler: WatchedFileHandler | None = None
        if path is not None:
            try:
                Path(path).touch(mode=0o600)
                self._handler = WatchedFileHandler(path, encoding="utf-8")
            except OSError as error:
                raise InputError(f"audit is {path}, which cannot be written: {error.strerror}") from error

    def wrote(self, who: Principal, action: str, namespace: str, **what: object) -> None:
        """Say that somebody wrote something."""
        if self._handler is None:
            return
        line = {"time": time.time(), "key": who.name, "action": action, "namespace": namespace, **what}
        text = json.dumps(line, ensure_ascii=True, default=str)  # ASCII: no terminal trick in a name
        self._handler.handle(logging.makeLogRecord({"msg": text}))

    def close(self) -> None:
        """Close the file; idempotent."""
        if self._handler is not None:
            self._handler.close()


# ---- metrics


_METHODS = ("GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH")
_TENTHS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0)
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)

_MINUTES = 24 * 60


@dataclass(slots=True)
class Minute:
    """What was served within a minute, apart from looks at the memory: how it ended, and how long it took.

    ``calls`` counts those to upstreams, by name and how they ended; ``answers`` has how long answers took, by
    name.
    """

    time: float
    requests: int = 0
    refused: int = 0
    errors: int = 0
    seconds: list[int] = field(default_factory=lambda: [0] * (len(_SECONDS) + 1))  # by bucket
    calls: Tally[tuple[str, str]] = field(default_factory=Tally)
    answers: dict[str, list[int]] = field(default_factory=dict)


def quantile(counted: Iterable[list[int]], share: float) -> float | None:
    """Seconds within which this share was done, as exact as the buckets; None for none.

    >>> quantile([[1, 1] + [0] * 14], 0.5)
    0.001
    """
    buckets: list[int] = [sum(counts) for counts in zip(*counted, strict=True)]
    wanted, below = share * sum(buckets), 0.0
    for place, count in enumerate(buckets):
        if count and below + count >= wanted:
            low, high = (0.0, *_SECONDS, _SECONDS[-1])[place : place + 2]
            return low + (high - low) * (wanted - below) / count
        below += count
    return None


class Metrics:
    """The service's own registry and what is counted in it; the last day also minute by minute."""

    def __init__(self) -> None:
        self.started = time.time()
        self.minutes: deque[Minute] = deque(maxlen=_MINUTES)
        self.registry = CollectorRegistry()
        self._children: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}
        self._decided: dict[str, Counter] = {}
        self.requests = self._counter("requests", "Requests served.", "method", "route", "status")
        self.seconds = self._histogram("request_seconds", "Time until a response ended.", _SECONDS, "route")
        self.running = 0  # requests; a number of Prometheus's takes a lock to count up and down
        self._gauge("requests_running", "Requests being served.").set_function(lambda: self.running)
        self.decisions = self._counter("decisions", "Decisions made.", "read")
        self.feedback = self._counter("feedback", "Feedback taken.")
        self.upstream_calls = self._counter(
            "upstream_calls", "Calls of the gateway, by the upstream's name.", "peer", "outcome"
        )
        self.upstream_seconds = self._histogram(
            "upstream_seconds",
            "Time until an upstream's answer, or the first event of its stream, was there.",
            _SECONDS,
            "peer",
        )
        self.store_up = self._gauge("store_up", "Whether the store can be written; 0 while it is away.")
        self.store_up.set(1)
        self.waiting = self._gauge("unrecorded_waiting", "Decisions that wait for the store.")
        self.unrecorded = self._counter(
            "unrecorded", "Decisions made without the store: queued, then recorded or dropped.", "outcome"
        )
        self.confidence = self._histogram(
            "confidence", "Probability that the answer served is right, of the gateway's decisions.", _TENTHS
        )
        self.cost = self._counter("cost", "What upstreams were paid, in the unit of the prices.", "peer")
        self.trust = self._gauge(
            "trust", "p̂ of an upstream whatever the task, in the gateway's memory.", "peer"
        )
        self.drift = self._gauge(
            "drift", "How sure it is that an upstream's record changed; 0 if not.", "peer"
        )
        self.circuit_open = self._gauge("circuit_open", "Whether an upstream failed too often.", "peer")
        self.alarms = self._counter("alarms", "Alarms raised.", "kind")
        self.webhooks = self._counter("webhooks", "Messages to webhooks: delivered or failed.", "outcome")
        # Prometheus sees no increase of a number that was not there before.
        for counter, values in (
            (self.unrecorded, ("queued", "recorded", "dropped")),
            (self.alarms, get_args(AlarmKind)),
            (self.webhooks, ("delivered", "failed")),
        ):
            for value in values:
                counter.labels(value)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"sigma_mem_{name}", text, labels, registry=self.registry)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"sigma_mem_{name}", text, labels, registry=self.registry)

    def _histogram(self, name: str, text: str, buckets: Sequence[float], *labels: str) -> Histogram:
        return Histogram(f"sigma_mem_{name}", text, labels, buckets=buckets, registry=self.registry)

    def served(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request; `route` is a path with names instead of values."""
        known = method if method in _METHODS else "other"
        found = self._children.get((known, route, status))
        if found is None:  # looking labels up takes longer than counting
            found = self.requests.labels(known, route, str(status)), self.seconds.labels(route)
            self._children[known, route, status] = found
        found[0].inc()
        found[1].observe(seconds)
        if known != "GET" and not route.endswith("/trust"):
            minute = self.minute()
            minute.requests += 1
            minute.refused += 400 <= status < 500
            minute.errors += status >= 500
            minute.seconds[bisect_left(_SECONDS, seconds)] += 1

    def minute(self) -> Minute:
        """The current minute."""
        now = time.time() // 60 * 60.0
        if not self.minutes or self.minutes[-1].time != now:
            self.minutes.append(Minute(now))
        return self.minutes[-1]

    def called(self, peer: str, outcome: str, seconds: float) -> None:
        """Count a call to an upstream."""
        minute = self.minute()
        self.upstream_calls.labels(peer, outcome).inc()
        minute.calls[peer, outcome] += 1
        if outcome == "answered":
            self.upstream_seconds.labels(peer).observe(seconds)
            minute.answers.setdefault(peer, [0] * (len(_SECONDS) + 1))[bisect_left(_SECONDS, seconds)] += 1

    def decided(self, read: str) -> None:
        """Count a decision."""
        found = self._decided.get(read)
        if found is None:
            found = self._decided[read] = self.decisions.labels(read)
        found.inc()

    def text(self) -> bytes:
        """All of it in Prometheus's text format."""
        return generate_latest(self.registry)


# ---- spans


_OPERATIONS = {"chat/completions": "chat", "messages": "chat", "responses": "chat"}


def telemetry_options(on: bool) -> TelemetryConfig:
    """What the framework should trace; exporters come from OTEL_ variables."""
    if not on:
        return {"tracing": False, "metrics": False, "logs": False, "auto_configure": False}
    for package in ("opentelemetry.sdk.trace", "opentelemetry.exporter.otlp.proto.http"):
        require(package, extra="otel", purpose="telemetry = true")
    return {
        "tracing": True,
        "metrics": False,
        "logs": False,
        "operation_spans": False,
        "auto_configure": True,
    }


@lru_cache(maxsize=256)
def _described(upstream: Upstream, path: str) -> tuple[str, dict[str, str | int]]:
    """The name of a call's span, and what is known before the call is made."""
    server, operation = urlsplit(upstream.base_url), _OPERATIONS.get(path, path)
    return f"{operation} {upstream.model}", {
        "gen_ai.operation.name": operation,
        "gen_ai.provider.name": "anthropic" if path == "messages" else "openai",  # whose protocol
        "gen_ai.request.model": upstream.model,
        "server.address": server.hostname or "",
        "server.port": server.port or (443 if server.scheme == "https" else 80),
        "sigma_mem.peer": upstream.name,
    }


@contextmanager
def model_span(upstream: Upstream, path: str) -> Iterator[Span]:
    """The span of one call to a model."""
    tracer = trace.get_tracer("sigma_mem")
    name, attributes = _described(upstream, path)
    with tracer.start_as_current_span(
        name,
        kind=SpanKind.CLIENT,
        attributes=attributes,
        record_exception=False,  # its message may quote what the model was sent
        set_status_on_exception=False,
    ) as span:
        try:
            yield span
        except SigmaMemError as error:
            span.set_attribute("error.type", type(error).__name__)
            span.set_status(Status(StatusCode.ERROR))
            raise


def note_usage(span: Span, body: Mapping[str, Any]) -> None:
    """Put what a model's answer says of itself into its span."""
    usage = body.get("usage")
    counts = usage if isinstance(usage, Mapping) else {}
    for key, name in (
        ("prompt_tokens", "gen_ai.usage.input_tokens"),
        ("completion_tokens", "gen_ai.usage.output_tokens"),
        ("input_tokens", "gen_ai.usage.input_tokens"),
        ("output_tokens", "gen_ai.usage.output_tokens"),
    ):
        if isinstance(counts.get(key), int):
            span.set_attribute(name, counts[key])
    for key, name in (("model", "gen_ai.response.model"), ("id", "gen_ai.response.id")):
        if isinstance(body.get(key), str):
            span.set_attribute(name, body[key])
