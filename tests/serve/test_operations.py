"""Health, metrics, log, spans without text, and an end that loses nothing."""

import json
import signal
import socket
import subprocess
import sys
import threading

import httpx2
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from serve.conftest import served
from sigma_mem import Client, SigmaMem
from sigma_mem.cli.app import run
from sigma_mem.client import ServiceError
from sigma_mem.errors import SigmaMemError, StoreError
from sigma_mem.serve import telemetry
from sigma_mem.serve.config import Upstream


def test_it_is_ready_while_the_store_can_be_written(monkeypatch):
    with served() as http:
        assert http.get("/healthz").json() == {"status": "ok"}
        assert http.get("/readyz").json() == {"status": "ready"}

        def full():
            raise StoreError("disk full")

        monkeypatch.setattr(http.context.memories.store, "flush", full)
        sent = http.get("/readyz")
        assert (sent.status_code, sent.json()["error"]["code"]) == (503, "store_unavailable")
        assert http.get("/healthz").status_code == 200
        monkeypatch.undo()


def test_labels_of_metrics_have_few_values():
    with served() as http:
        for n in range(30):
            http.put(f"/v1/memory/name-{n}", json={"peers": [f"peer-{n}"], "encoder": "hashed"})
            http.get(f"/nowhere/{n}")
            http.request(f"METHOD{n}", "/healthz")
        text = http.get("/metrics").text
    assert "name-" not in text
    assert "peer-" not in text
    assert "METHOD" not in text
    assert 'route="/v1/memory/{namespace}"' in text
    assert text.count("sigma_mem_requests_total{") <= 4


def test_a_store_that_drops_what_was_written_is_not_acknowledged(monkeypatch):
    """The disk fills up between the write and the wait: the sender must hear of it."""
    with served(peers=["ann"]) as http:
        made = http.post("/v1/memory/default/route", json={"question": "x"}).json()
        store = http.context.memories.store

        def when_settled(namespace, call):
            monkeypatch.setattr(type(store), "epoch", lambda self, namespace: 1)

        monkeypatch.setattr(store, "when_settled", when_settled)
        body = {"decision": made["id"], "labels": {"ann": True}}
        sent = http.post("/v1/memory/default/feedback", json=body)
        assert (sent.status_code, sent.json()["error"]["code"]) == (503, "store_unavailable")
        monkeypatch.undo()


@pytest.fixture
def process(tmp_path):
    """The command, as a person starts it."""
    code = "from sigma_mem.cli import main; main()"
    flags = ["--path", str(tmp_path / "memory.db"), "--port", "0"]
    started = subprocess.Popen(
        [sys.executable, "-c", code, "serve", *flags],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    )
    yield started
    if started.poll() is None:
        started.kill()
    started.communicate()


@pytest.fixture
def locked(keys, tmp_path):
    """What `process` is told if it is to have keys."""
    (tmp_path / "sigma-mem.toml").write_text('keys = "keys.json"\n')


def test_a_header_that_names_another_address_does_not_evade_the_limit(locked, process):
    url = process.stdout.readline().split()[-1]
    with httpx2.Client(base_url=url) as http:
        asked = ({"authorization": f"Bearer {n}", "x-forwarded-for": f"10.0.0.{n}"} for n in range(100))
        statuses = [http.get("/v1/memory", headers=headers).status_code for headers in asked]
    assert set(statuses) == {401, 429}


def test_a_signal_ends_it_cleanly_and_loses_nothing(process, tmp_path):
    url = process.stdout.readline().split()[-1]
    acknowledged, decided = [], []

    def work(name):
        with Client(url, key="") as client:
            memory = client.namespace("default", ["ann", "bob"], encoder="hashed")
            try:
                while True:
                    decided.append(memory.route("which?").id)
                    acknowledged.append(
                        memory.feedback(decided[-1], {"ann": True}, id=f"{name}-{len(decided)}").id
                    )
            except ServiceError as gone:
                if gone.status:
                    raise

    threads = [threading.Thread(target=work, args=(name,)) for name in "xy"]
    for thread in threads:
        thread.start()
    while len(acknowledged) < 20:
        assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    _, log = process.communicate(timeout=60)
    for thread in threads:
        thread.join()
    assert process.returncode == 0
    lines = [json.loads(line) for line in log.splitlines()]
    assert (lines[0]["message"], lines[-1]["message"]) == ("start", "stop")
    requests = [line for line in lines if line["message"] == "request"]
    assert {"method", "route", "status", "ms", "key", "request", "namespace"} <= set(requests[0])
    with SigmaMem(path=tmp_path / "memory.db") as mem:
        records = list(mem.store.records("default"))
        assert set(acknowledged) <= {record.id for record in records if record.kind == "feedback"}
        assert set(decided) <= {record.id for record in records if record.kind == "decision"}
        assert mem.store.load_snapshot("default").seq == records[-1].seq


def test_a_port_that_is_taken_is_one_line(capsys, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert run(["serve", "--port", str(taken.getsockname()[1])]) == 2
    error = capsys.readouterr().err
    assert "cannot listen" in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(("namespace", "status"), [("../x", 2), ("default", 1)])
def test_a_memory_that_cannot_be_opened_is_one_line(capfd, tmp_path, namespace, status):
    memory, config = tmp_path / "memory.db", tmp_path / "sigma-mem.toml"
    SigmaMem(["ann"], memory, encoder="hashed", keep_text=True).close()  # and the service keeps no texts
    upstream = '[[upstreams]]\nname = "ann"\nbase_url = "http://127.0.0.1:9/v1"\n'
    config.write_text(f'path = "{memory}"\nport = 0\nnamespace = "{namespace}"\n{upstream}')
    assert run(["serve", "--config", str(config)]) == status
    lines = capfd.readouterr().err.splitlines()
    assert [line for line in lines if not line.startswith("{")] == [lines[-1]]
    assert lines[-1].startswith("sigma-mem: ")
    assert not any("Traceback" in line for line in lines)


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
