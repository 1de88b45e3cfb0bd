"""Scores of other tools, one function for each: what it holds, as `Score` after `Score`.

Files are read with the standard library and services over HTTP, so that no tool needs to be installed. In a
file the event's name is at `ref`, a path of keys such as ``metadata.sigma_ref``.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from sigma_mem.errors import InputError, SigmaMemError
from sigma_mem.extras import require
from sigma_mem.scores.record import Score
from sigma_mem.streams.tables import parse

if sys.version_info >= (3, 14):
    import zipfile
else:  # whose own does not know zstd
    from backports.zstd import zipfile

Get = Callable[[str, Mapping[str, Any]], Any]  # the JSON at a path with a query
_PAGE = 100  # scores, or names of events, in one request
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
REF = "metadata.sigma_ref"
_PROMPTFOO = ("vars.sigma_ref", REF, f"testCase.{REF}")  # a row that failed has only the test's own
_KEYS = {  # environment variables with the credentials of a tool
    "langfuse": ("LANGFUSE_PUBLIC_KEY", "LANGFUSE_SECRET_KEY"),
    "langsmith": ("LANGSMITH_API_KEY",),
    "phoenix": ("PHOENIX_API_KEY",),
}


# --- services ----------------------------------------------------------------------------


def get_from(source: str, url: str) -> Get:
    """How to get JSON from a service, with the credentials that its environment variables have."""
    httpx2 = require("httpx2", extra="client", purpose=f"scores of {source}")
    keys = [os.environ.get(name, "") for name in _KEYS[source]]
    given: dict[str, Any] = {"timeout": 30.0}
    if source == "langfuse" and all(keys):
        given["auth"] = tuple(keys)
    elif all(keys):
        given["headers"] = {"x-api-key": keys[0], "authorization": f"Bearer {keys[0]}"}

    def get(path: str, query: Mapping[str, Any]) -> Any:
        try:
            answer = httpx2.get(url.rstrip("/") + path, params=query, **given)
            answer.raise_for_status()
            return answer.json()
        except (httpx2.HTTPError, ValueError) as error:
            names, status = ", ".join(_KEYS[source]), getattr(error, "response", None)
            why = error if status is None else f"status {status.status_code} for {path}"
            raise SigmaMemError(
                f"{source} gave no scores ({why}); is {url} its address, and {names} set?"
            ) from error

    return get


def langfuse(get: Get, since: str | None, refs: Sequence[str]) -> Iterator[Score]:
    """Langfuse, v3 scores page by page: of a trace or of one of its observations, named by either's id."""
    query: dict[str, Any] = {"limit": _PAGE, "fields": "details,subject"}
    known = set(refs)
    if since is not None:
        query["fromTimestamp"] = since
    while True:
        page = get("/api/public/v3/scores", query)
        for each in page["data"]:
            subject = each.get("subject") or {}
            if subject.get("kind") in ("trace", "observation"):
                named = subject["id"] if subject["id"] in known else subject.get("traceId") or subject["id"]
                yield Score(
                    named, None, each["name"], each["value"], each["id"], str(each.get("updatedAt", ""))
                )
        if not (cursor := (page.get("meta") or {}).get("cursor")):
            return
        query = {**query, "cursor": cursor}


def langsmith(get: Get, since: str | None, refs: Sequence[str]) -> Iterator[Score]:
    """LangSmith: the feedback on runs, or on their traces, by whose ids events are named."""
    for some in _batches([ref for ref in refs if _UUID.fullmatch(ref)]):  # it refuses any other id
        offset = 0
        while page := get("/feedback", {"run": some, "limit": _PAGE, "offset": offset}):
            for each in page:
                named = each["run_id"] if each["run_id"] in some else each.get("trace_id")
                value = each["score"] if each.get("score") is not None else each.get("value")
                time = str(each.get("modified_at") or each.get("created_at") or "")
                yield Score(str(named), None, each["key"], value, each["id"], time)
            offset += len(page)
            if len(page) < _PAGE:
                break


def phoenix(get: Get, since: str | None, refs: Sequence[str]) -> Iterator[Score]:
    """Phoenix: the annotations of spans, by whose ids events are named."""
    for some in _batches(refs):
        query: dict[str, Any] = {"span_ids": some, "limit": _PAGE}
        while True:
            page = get("/span_annotations", query)
            for each in page["data"]:
                result = each.get("result") or {}
                value = result["score"] if result.get("score") is not None else result.get("label")
                id = "/".join((each["span_id"], each["name"], each.get("identifier") or ""))
                yield Score(each["span_id"], None, each["name"], value, id, str(each.get("updated_at", "")))
            if not (cursor := page.get("next_cursor")):
                break
            query = {**query, "cursor": cursor}


def _batches(refs: Sequence[str]) -> Iterator[list[str]]:
    return (list(refs[at : at + _PAGE]) for at in range(0, len(refs), _PAGE))


# --- files -------------------------------------------------------------------------------


def inspect(file: Path, ref: str = REF) -> Iterator[Score]:
    """An inspect_ai log, packed (.eval) or as JSON: every score of every sample."""
    log = _packed_log(file) if file.suffix == ".eval" else parse(file)
    run = log["eval"]
    for sample in log.get("samples") or ():
        for scorer, score in (sample.get("scores") or {}).items():
            id = "/".join(map(str, (run.get("eval_id", ""), sample["id"], sample.get("epoch", 1), scorer)))
            value = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}.get(str(score["value"]), score["value"])
            yield from _named(sample, ref, scorer, value, id, str(run.get("created", "")))


def _packed_log(file: Path) -> dict[str, Any]:
    if not zipfile.is_zipfile(file):
        raise InputError(f"{file}: is no packed log of inspect_ai; expected the .eval file that it wrote")
    with zipfile.ZipFile(file) as packed:
        samples = [json.loads(packed.read(n)) for n in packed.namelist() if n.startswith("samples/")]
        return {**json.loads(packed.read("header.json")), "samples": samples}


def promptfoo(file: Path, ref: str = "") -> Iterator[Score]:
    """What ``promptfoo eval --output results.json`` writes: "pass", "score" and every named score."""
    body = parse(file)
    summary = body["results"]
    for row in summary["results"]:
        own = row.get("id") or f"{row.get('testIdx')}.{row.get('promptIdx')}"
        named = {"pass": row.get("success"), "score": row.get("score"), **(row.get("namedScores") or {})}
        for metric, value in named.items():
            id = f"{body.get('evalId')}/{own}/{metric}"
            at = ref or next((path for path in _PROMPTFOO if _at(row, path)), REF)
            yield from _named(row, at, metric, value, id, str(summary.get("timestamp", "")))


def deepeval(file: Path, ref: str = REF) -> Iterator[Score]:
    """A test run of DeepEval (``.deepeval/.latest_run_full.json``): every metric of every case."""
    run = parse(file)
    for case in run.get("testCases") or ():
        for metric in case.get("metricsData") or ():
            id = f"{run.get('identifier') or 'run'}/{_at(case, ref)}/{case['name']}/{metric['name']}"
            yield from _named(case, ref, metric["name"], metric.get("score"), id)


def junit(file: Path, ref: str = "sigma_ref") -> Iterator[Score]:
    """A JUnit file: the share that passed of the tests with one property `ref`, theirs or their suite's."""
    results: dict[tuple[str, str, str], list[bool]] = {}
    for suite in ElementTree.parse(file).getroot().iter("testsuite"):
        for case in suite.findall("testcase"):
            named = _property(case, ref) or _property(suite, ref)
            if named and case.find("skipped") is None:
                key = (named, suite.get("name", ""), suite.get("timestamp", ""))
                failed = any(case.find(how) is not None for how in ("failure", "error"))
                results.setdefault(key, []).append(not failed)
    for (named, of, time), passed in results.items():
        yield Score(named, None, "passed", sum(passed) / len(passed), f"{of}/{time}/{named}", time)


def csv(file: Path, ref: str = "ref") -> Iterator[Score]:
    """A table (.csv, .jsonl, .parquet) with the columns ref, metric, value and perhaps peer, id, time."""
    for row in parse(file):
        if not isinstance(row, dict) or not {ref, "metric", "value"} <= row.keys():
            raise InputError(f"{file}: got a row {row!r:.80}; expected the columns {ref}, metric and value")
        id = row.get("id") or f"{row[ref]}/{row.get('peer') or ''}/{row['metric']}"
        peer, time = row.get("peer") or None, str(row.get("time") or "")
        yield Score(str(row[ref]), peer, row["metric"], row["value"], str(id), time)


def _named(record: Any, ref: str, metric: str, value: object, id: str, time: str = "") -> Iterator[Score]:
    if (named := _at(record, ref)) is not None:
        yield Score(str(named), None, metric, value, id, time)


def _at(record: Any, path: str) -> Any:
    """What is at a path of keys; None if there is nothing."""
    for key in path.split("."):
        record = record.get(key) if isinstance(record, Mapping) else None
    return record


def _property(element: ElementTree.Element, name: str) -> str | None:
    found = (each for each in element.iterfind("properties/property") if each.get("name") == name)
    return next((each.get("value") or each.text for each in found), None)


# --- OpenTelemetry -----------------------------------------------------------------------


def otlp(body: Mapping[str, Any]) -> Iterator[Score]:
    """Events ``gen_ai.evaluation.result`` in logs of OTLP as JSON.

    An event is about the response in ``gen_ai.response.id`` or, without that, about its span.
    """
    for resource in body.get("resourceLogs") or ():
        for scope in resource.get("scopeLogs") or ():
            for line in scope.get("logRecords") or ():
                said = {
                    each["key"]: next(iter(each["value"].values()), None)
                    for each in line.get("attributes") or ()
                }
                if "gen_ai.evaluation.result" not in (line.get("eventName"), said.get("event.name")):
                    continue
                metric, span = said.get("gen_ai.evaluation.name"), line.get("spanId")
                ref = said.get("sigma_ref") or said.get("gen_ai.response.id") or span
                value = said.get("gen_ai.evaluation.score.value", said.get("gen_ai.evaluation.score.label"))
                if metric and ref:
                    time = str(line.get("timeUnixNano") or "").zfill(20)
                    id = "/".join(dict.fromkeys(map(str, filter(None, (span, ref, metric)))))
                    yield Score(str(ref), None, str(metric), value, id, time)


SERVICES = {"langfuse": langfuse, "langsmith": langsmith, "phoenix": phoenix}
FILES = {"inspect": inspect, "promptfoo": promptfoo, "deepeval": deepeval, "junit": junit, "csv": csv}
