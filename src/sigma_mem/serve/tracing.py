"""Spans for OpenTelemetry: one for every HTTP request, and one for every call to a model (GenAI conventions).

Where no exporter is configured a span costs next to nothing. No text of a request or an answer is in one.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from fastapi.telemetry import TelemetryConfig
from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from sigma_mem.errors import SigmaMemError
from sigma_mem.extras import require
from sigma_mem.serve.config import Upstream

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
