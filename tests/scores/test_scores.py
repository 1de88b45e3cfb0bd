"""Scores of other tools, as feedback: each once, in any order, as configured."""

import json
import random
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scores import payloads
from sigma_mem import Settings, SigmaMem
from sigma_mem.cli.app import run
from sigma_mem.errors import InputError
from sigma_mem.scores import Metric, Score, record
from sigma_mem.scores.readers import FILES, SERVICES, otlp

REFS = payloads.REFS
LABELS = dict(zip(REFS, ({"ann": 1.0}, {"ann": 1.0}, {"ann": -1.0}), strict=True))
AT_LEAST = {"correctness": Metric(">=", 0.7)}


def memory(path=None):
    mem = SigmaMem(["ann", "bob"], path=path, encoder="hashed", settings=Settings(trusted=()))
    for ref in REFS:
        mem.route(f"What is {ref}?", ref=ref, among=["ann"])
    return mem


def labels(mem):
    return {ref: dict(mem.decision(ref).labels) for ref in REFS}


@pytest.fixture
def service():
    """The answers of the three services, on loopback."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            parts = urlsplit(self.path)
            asked.append((parts.path, dict(self.headers)))
            paths = {"/api/public/v3/scores": "langfuse", "/feedback": "langsmith"}
            paths["/span_annotations"] = "phoenix"
            if (name := paths.get(parts.path)) is None:
                self.send_error(404)
                return
            body = json.dumps(getattr(payloads, name)(parse_qs(parts.query))).encode()
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        server.asked = asked
        yield server
        server.shutdown()
        thread.join()


def metric_of(source):
    return "passed>=0.7" if source == "junit" else "correctness>=0.7"


@pytest.mark.parametrize("source", FILES)
def test_a_file_is_taken_once(source, tmp_path, capsys):
    memory(tmp_path / "memory.db").close()
    file = getattr(payloads, source)(tmp_path)
    options = ["--memory", str(tmp_path / "memory.db"), "--metric", metric_of(source), "--json"]
    for _ in range(2):
        assert run(["scores", source, str(file), *options]) == 0
        assert json.loads(capsys.readouterr().out)["taken"] == 3
    with SigmaMem(path=tmp_path / "memory.db") as mem:
        assert labels(mem) == LABELS
        (found,) = mem.sources()
        assert (found.name.partition("/")[0], found.lines) == (source, 3)


def test_a_packed_log_has_what_the_same_log_has_as_json(tmp_path):
    files = payloads.inspect(tmp_path), payloads.packed_inspect(tmp_path)
    as_json, packed = (list(FILES["inspect"](file)) for file in files)
    assert packed == as_json
    assert len(packed) == 6


@pytest.mark.parametrize("source", SERVICES)
def test_a_service_is_asked_page_by_page(source, service, tmp_path, monkeypatch, capsys):
    for name in ("LANGFUSE_PUBLIC_KEY", "LANGFUSE_SECRET_KEY", "LANGSMITH_API_KEY", "PHOENIX_API_KEY"):
        monkeypatch.setenv(name, "secret")
    with memory(tmp_path / "memory.db") as mem:
        mem.route("What is mine?", ref="a name that no tool knows")
    url = f"http://127.0.0.1:{service.server_port}"
    options = ["--memory", str(tmp_path / "memory.db"), "--metric", "correctness>=0.7", "--json"]
    for _ in range(2):
        assert run(["scores", source, url, *options]) == 0
        assert json.loads(capsys.readouterr().out) == {"taken": 3, "unknown": 0, "unused": 0}
    with SigmaMem(path=tmp_path / "memory.db") as mem:
        assert labels(mem) == LABELS
    assert all("authorization" in {key.lower() for key in headers} for _, headers in service.asked)


def test_events_of_opentelemetry_are_read():
    with memory() as mem:
        assert record(mem, otlp(payloads.otlp()), AT_LEAST, "otlp") == (
            3,
            0,
            0,
        )  # none for the first span
        assert labels(mem) == LABELS


def test_evaluations_of_several_responses_in_one_span_are_told_apart():
    body = payloads.otlp()
    lines = body["resourceLogs"][0]["scopeLogs"][0]["logRecords"][:3]
    for line, ref in zip(lines, REFS, strict=True):
        line["spanId"] = "eee19b7ec3c1b174"  # the evaluator's own
        line["attributes"].append({"key": "gen_ai.response.id", "value": {"stringValue": ref}})
    scores = list(otlp(body))
    assert tuple(score.ref for score in scores) == REFS
    assert len({score.id for score in scores}) == 3


def test_scores_count_once_in_any_order(tmp_path):
    scores = [*FILES["csv"](payloads.csv(tmp_path)), *otlp(payloads.otlp())]
    found = []
    for seed in range(5):
        shuffled = scores * 2
        random.Random(seed).shuffle(shuffled)
        with memory() as mem:
            at = random.Random(seed).randrange(len(shuffled))
            for part in (shuffled[:at], shuffled[at:]):
                record(mem, part, AT_LEAST, "any")
            found.append((labels(mem), mem.trust(f"What is {REFS[0]}?")["ann"].prob))
    assert all(found[0][0] == each for each, _ in found)
    assert [prob for _, prob in found] == pytest.approx([found[0][1]] * 5, rel=1e-12)


def test_a_changed_score_amends_and_the_last_of_several_counts():
    with memory() as mem:
        first, second = (Score(REFS[0], None, "m", value, id, time) for value, id, time in
                         ((1.0, "a", "2026-01-01"), (0.0, "b", "2026-01-02")))  # fmt: skip
        for order in ((first, second), (second, first)):
            record(mem, order, {"m": Metric()}, "any")
            assert mem.decision(REFS[0]).labels == {"ann": -1.0}
            assert [source.lines for source in mem.sources()] == [1]  # not even a line for the first one
        record(mem, [second._replace(value=1.0)], {"m": Metric()}, "any")
        assert mem.decision(REFS[0]).labels == {"ann": 1.0}


def test_metrics_are_sources_of_their_own_with_the_configured_weight():
    with memory() as mem:
        scores = [Score(REFS[0], "bob", name, 1.0, name) for name in ("a", "b", "c")]
        assert record(mem, scores, {"a": Metric(), "b": Metric(weight=0.5)}, "csv") == (2, 0, 1)
        assert mem.decision(REFS[0]).labels == {"bob": 1.0}
        assert {source.name for source in mem.sources()} >= {"csv/a", "csv/b"}


@pytest.mark.parametrize(
    ("text", "value", "right"),
    [
        ("m", 0.25, 0.25),
        ("m", True, 1.0),
        ("m", "Fail", 0.0),
        ("m", 3, None),
        ("m", "so so", None),
        ("m>=3", 4, 1.0),
        ("m>=3", 2, 0.0),
        ("m<=0.2*0.5", 0.1, 1.0),
        ("m=yes", "Yes", 1.0),
        ("m=good", "bad", 0.0),
        ("m=1", 1.0, 1.0),
        ("m=good", None, None),
    ],
)
def test_what_a_metric_takes_for_right(text, value, right):
    name, metric = Metric.parse(text)
    assert name == "m"
    assert metric.right(value) == right


@given(st.text(max_size=20))
def test_any_text_is_a_metric_or_refused(text):
    try:
        name, metric = Metric.parse(text)
    except InputError:
        return
    assert name
    assert 0.0 < metric.weight <= 1.0


@pytest.mark.parametrize("text", ["", "m>=much", "m*0", "m*2", ">=3"])
def test_what_is_no_metric_is_refused(text):
    with pytest.raises(InputError, match="metric is"):
        Metric.parse(text)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["scores", "excel", "x"], "expected one of langfuse"),
        (["scores", "langfuse", "x.json"], "expected the address of langfuse"),
        (["scores", "inspect", "OTHER.json"], "does not look like inspect"),
        (["scores", "inspect", "OTHER.eval"], "is no packed log of inspect_ai"),
        (["scores", "junit", "OTHER.json"], "does not look like junit"),
        (["scores", "csv", "OTHER.json"], "expected the columns ref, metric and value"),
    ],
)
def test_other_input_is_refused(arguments, says, tmp_path, capsys):
    memory(tmp_path / "memory.db").close()
    for ending in ("json", "eval"):
        (tmp_path / f"OTHER.{ending}").write_text('[{"a": 1}]')
    arguments = [argument.replace("OTHER", str(tmp_path / "OTHER")) for argument in arguments]
    assert run([*arguments, "--memory", str(tmp_path / "memory.db"), "--metric", "m"]) == 2
    assert says in capsys.readouterr().err


def test_a_service_that_does_not_answer_is_named(tmp_path, capsys):
    memory(tmp_path / "memory.db").close()
    options = ["--memory", str(tmp_path / "memory.db"), "--metric", "m"]
    assert run(["scores", "langfuse", "http://127.0.0.1:1", *options]) == 1
    assert "LANGFUSE_SECRET_KEY set?" in capsys.readouterr().err


def test_the_error_of_a_service_is_one_short_line(tmp_path, service, capsys):
    with memory(tmp_path / "memory.db"):
        pass
    options = ["--memory", str(tmp_path / "memory.db"), "--metric", "m"]
    assert run(["scores", "phoenix", f"http://127.0.0.1:{service.server_port}/elsewhere", *options]) == 1
    assert "(status 404 for /span_annotations)" in capsys.readouterr().err


def test_a_services_memory_takes_one_metric(tmp_path, capsys):
    file = payloads.csv(tmp_path)
    several = ["--metric", "a", "--metric", "b"]
    assert run(["scores", "csv", str(file), "--memory", "http://127.0.0.1:1", *several]) == 2
    assert "expected one metric" in capsys.readouterr().err
