"""Evaluations that OpenTelemetry exports are feedback, each once."""

import gzip
import json

import pytest

from scores.payloads import REFS, VALUES, otlp
from serve.conftest import bearer, served
from serve.gateway.conftest import serving
from sigma_mem import Client
from sigma_mem.serve.app import create_app
from sigma_mem.serve.config import ServerConfig
from sigma_mem.serve.keys import add_key

LABELS = dict(zip(REFS, ({"ann": 1.0}, {"ann": 1.0}, {"ann": -1.0}), strict=True))


def decided(http, headers=None):
    http.put("/v1/memory/default", json={"peers": ["ann", "bob"], "encoder": "hashed"}, headers=headers)
    for ref in VALUES:
        asked = {"question": "What is 2 + 2?", "ref": ref, "among": ["ann"]}
        assert http.post("/v1/memory/default/route", json=asked, headers=headers).is_success


def labels(http, headers=None):
    found = {
        ref: http.get("/v1/memory/default/decision", params={"id": ref}, headers=headers) for ref in VALUES
    }
    return {ref: answer.json()["labels"] for ref, answer in found.items()}


@pytest.mark.parametrize("packed", [False, True])
def test_events_come_as_json_and_count_once(packed):
    with served(metrics=("correctness>=0.7",)) as http:
        decided(http)
        body = json.dumps(otlp()).encode()
        headers = {"content-type": "application/json"} | ({"content-encoding": "gzip"} if packed else {})
        for _ in range(2):
            answer = http.post("/v1/logs", content=gzip.compress(body) if packed else body, headers=headers)
            assert (answer.status_code, answer.json()) == (200, {})
        assert labels(http) == LABELS
        found = http.get("/v1/memory/default/sources").json()["sources"]
        assert {source["name"]: source["lines"] for source in found if source["lines"]} == {
            "otlp/default/correctness": 3
        }


def test_a_key_has_sources_and_ids_of_its_own(tmp_path):
    keys = {name: add_key(tmp_path / "keys.json", name, {"default": "admin"}, 0.0) for name in ("one", "two")}
    with served(metrics=("correctness>=0.7",), keys=str(tmp_path / "keys.json")) as http:
        decided(http, bearer(keys["one"]))
        for key in keys.values():
            assert http.post("/v1/logs", json=otlp(), headers=bearer(key)).is_success
        found = http.get("/v1/memory/default/sources", headers=bearer(keys["one"])).json()["sources"]
        assert {source["name"] for source in found if source["lines"]} == {
            "otlp/one/correctness",
            "otlp/two/correctness",
        }


def test_it_is_off_unless_metrics_are_named():
    with served() as http:
        answer = http.post("/v1/logs", json=otlp())
        assert answer.status_code == 404
        assert "no metrics are configured" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("content", "headers", "status"),
    [
        (b"[]", {}, 400),
        (b"not json", {}, 400),
        (b'{"resourceLogs": [3]}', {}, 400),
        (b'{"resourceLogs": 3}', {}, 400),
        (b"not gzip", {"content-encoding": "gzip"}, 400),
        (gzip.compress(b" " * 5_000_000), {"content-encoding": "gzip"}, 413),
    ],
)
def test_what_is_no_export_is_refused(content, headers, status):
    with served(metrics=("correctness",)) as http:
        assert http.post("/v1/logs", content=content, headers=headers).status_code == status


def test_the_exporter_of_opentelemetry_is_understood(tmp_path):
    exporter = pytest.importorskip("opentelemetry.exporter.otlp.proto.http._log_exporter")
    from opentelemetry import trace
    from opentelemetry.sdk._logs import LoggerProvider
    from opentelemetry.sdk._logs.export import SimpleLogRecordProcessor
    from opentelemetry.sdk.trace import TracerProvider

    config = ServerConfig(path=str(tmp_path / "memory.db"), log="off", metrics=("correctness>=0.7",))
    with serving(create_app(config)) as url, Client(url) as client:
        client.namespace("default", ["ann", "bob"])
        logs = LoggerProvider()
        logs.add_log_record_processor(SimpleLogRecordProcessor(exporter.OTLPLogExporter(f"{url}/v1/logs")))
        with TracerProvider().get_tracer("test").start_as_current_span("chat") as span:
            ref = trace.format_span_id(span.get_span_context().span_id)
            peer = client.route("What is 2 + 2?", ref=ref).peer
            said = {"gen_ai.evaluation.name": "correctness", "gen_ai.evaluation.score.value": 0.9}
            logs.get_logger("test").emit(event_name="gen_ai.evaluation.result", attributes=said)
        logs.shutdown()
        assert client.decision(ref).labels == {peer: 1.0}
