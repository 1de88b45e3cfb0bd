"""Spans follow the GenAI conventions, and hold no text."""

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from sigma_mem.errors import SigmaMemError
from sigma_mem.serve import telemetry
from sigma_mem.serve.config import Upstream

PEER = Upstream(name="ann", base_url="http://127.0.0.1:9/v1", model="gemma-2-9b")


@pytest.fixture
def spans(monkeypatch):
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(telemetry.trace, "get_tracer", provider.get_tracer)
    yield exporter.get_finished_spans
    provider.shutdown()


def test_a_call_to_a_model_is_a_span_with_its_usage(spans):
    usage = {"prompt_tokens": 7, "completion_tokens": 3}
    with telemetry.model_span(PEER, "chat/completions") as span:
        telemetry.note_usage(
            span, {"id": "c1", "model": "gemma-2-9b-it", "usage": usage, "choices": ["secret"]}
        )
    (made,) = spans()
    assert (made.name, made.kind.name) == ("chat gemma-2-9b", "CLIENT")
    assert dict(made.attributes) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gemma-2-9b",
        "gen_ai.response.model": "gemma-2-9b-it",
        "gen_ai.response.id": "c1",
        "gen_ai.usage.input_tokens": 7,
        "gen_ai.usage.output_tokens": 3,
        "server.address": "127.0.0.1",
        "server.port": 9,
        "sigma_mem.peer": "ann",
    }


def test_a_failure_is_named_and_not_quoted(spans):
    def fail():
        with telemetry.model_span(PEER, "embeddings") as span:
            telemetry.note_usage(span, {"usage": "none"})
            raise SigmaMemError("secret")

    with pytest.raises(SigmaMemError):
        fail()
    (made,) = spans()
    assert made.status.status_code.name == "ERROR"
    assert made.attributes["error.type"] == "SigmaMemError"
    assert "secret" not in made.to_json()


def test_nothing_is_traced_unless_it_is_wanted(monkeypatch):
    assert not any(telemetry.telemetry_options(False).values())
    asked = []
    monkeypatch.setattr(telemetry, "require", lambda package, extra, purpose: asked.append((package, extra)))
    assert telemetry.telemetry_options(True)["tracing"]
    assert ("opentelemetry.exporter.otlp.proto.http", "otel") in asked
