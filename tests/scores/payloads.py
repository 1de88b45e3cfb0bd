"""What the tools write or answer, after their documented formats, about three events.

The right peer answered the first two, and the scores of "correctness" say so: 0.9, 0.8 and 0.2.
"""

import json
import sys
import uuid

if sys.version_info >= (3, 14):
    import zipfile
else:
    from backports.zstd import zipfile

TIME = "2026-11-01T10:00:00Z"
REFS = tuple(f"6f9619ff-8b86-4011-b42d-00c04fc964f{number}" for number in (1, 2, 3))
VALUES = dict(zip(REFS, (0.9, 0.8, 0.2), strict=True))


def langfuse(query):
    """Two pages; the last score belongs to an observation, and one to a session, which is no event."""
    same = {"projectId": "p", "name": "correctness", "dataType": "NUMERIC", "source": "EVAL"}
    same |= {"environment": "default"} | dict.fromkeys(("timestamp", "createdAt", "updatedAt"), TIME)
    scores = [
        {"id": f"score-{ref}", **same, "value": value, "subject": {"kind": "trace", "id": ref}}
        for ref, value in VALUES.items()
    ]
    scores[2]["subject"] = {"kind": "observation", "id": "span-9", "traceId": REFS[2]}
    scores.append({**scores[0], "id": "s", "subject": {"kind": "session", "id": REFS[0]}})
    assert query["fields"] == ["details,subject"]
    if "cursor" not in query:
        return {"data": scores[:2], "meta": {"limit": 100, "cursor": "bmV4dA"}}
    assert query["cursor"] == ["bmV4dA"]
    return {"data": scores[2:], "meta": {"limit": 100}}


def langsmith(query):
    same = {"key": "correctness", "value": None, "comment": None, "created_at": TIME, "modified_at": TIME}
    ids = {ref: str(uuid.uuid5(uuid.UUID(ref), "feedback")) for ref in query["run"]}  # fails on other ids
    return [
        {"id": ids[ref], **same, "run_id": ref, "trace_id": ref, "score": VALUES[ref]}
        for ref in query["run"]
        if int(query["offset"][0]) == 0 and ref in VALUES
    ]


def phoenix(query):
    same, said = {"name": "correctness", "annotator_kind": "LLM", "identifier": ""}, {"explanation": ""}
    data = [
        {"span_id": ref, **same, "result": {"label": "any", "score": VALUES[ref], **said}}
        for ref in query["span_ids"]
        if ref in VALUES
    ]
    if "cursor" not in query:
        return {"data": data[:1], "next_cursor": "next"}
    return {"data": data[1:], "next_cursor": None}


def inspect(folder):
    scores = [{"correctness": {"value": value}, "style": {"value": "C"}} for value in VALUES.values()]
    samples = [
        {"id": number, "epoch": 1, "metadata": {"sigma_ref": ref}, "scores": scores[number]}
        for number, ref in enumerate(VALUES)
    ]
    samples.append({"id": 9, "epoch": 1, "metadata": {}, "scores": {"correctness": {"value": 1}}})
    log = {"version": 2, "status": "success", "eval": {"eval_id": "e1", "model": "m"}, "samples": samples}
    return _written(folder / "log.json", json.dumps(log))


def packed_inspect(folder):
    """The same as inspect_ai writes it by default: a zip in zstd, a file for each sample."""
    log = json.loads(inspect(folder).read_text(encoding="utf-8"))
    with zipfile.ZipFile(folder / "log.eval", "w", zipfile.ZIP_ZSTANDARD) as packed:
        for sample in log.pop("samples"):
            packed.writestr(f"samples/{sample['id']}_epoch_{sample['epoch']}.json", json.dumps(sample))
        packed.writestr("summaries.json", "[]")
        packed.writestr("header.json", json.dumps(log))
    return folder / "log.eval"


def promptfoo(folder):
    rows = []
    for ref, value in VALUES.items():
        scored = {"success": value > 0.5, "score": value, "namedScores": {"correctness": value}}
        rows.append({"id": f"row-{ref}", "testIdx": 0, "promptIdx": 0, "vars": {"sigma_ref": ref}, **scored})
    rows[1] |= {"vars": {}, "metadata": {"sigma_ref": REFS[1]}}
    rows[2] |= {"vars": {}, "testCase": {"metadata": {"sigma_ref": REFS[2]}}}  # one that failed
    body = {"evalId": "eval-1", "results": {"version": 3, "timestamp": "2026-11-01", "results": rows}}
    return _written(folder / "results.json", json.dumps(body))


def deepeval(folder):
    cases = []
    for ref, value in VALUES.items():
        metric = {"name": "correctness", "score": value, "threshold": 0.5, "success": True}
        about = {"name": f"case-{ref}", "input": "?", "metadata": {"sigma_ref": ref}}
        cases.append({**about, "metricsData": [metric]})
    return _written(folder / "run.json", json.dumps({"testCases": cases, "identifier": "run-1"}))


def junit(folder):
    """Of the ten tests of each event, nine, eight and two pass."""
    cases = []
    for ref, value in VALUES.items():
        for number in range(10):
            fails = '<failure message="no"/>' if number >= round(10 * value) else ""
            named = f'<properties><property name="sigma_ref" value="{ref}"/></properties>'
            cases.append(f'<testcase classname="t" name="t{number}">{named}{fails}</testcase>')
    cases.append('<testcase name="skipped"><skipped/></testcase><testcase name="of nobody"/>')
    suite = f'<testsuite name="s" timestamp="2026-11-01T10:00:00">{"".join(cases)}</testsuite>'
    return _written(folder / "junit.xml", f"<testsuites>{suite}</testsuites>")


def csv(folder):
    rows = "\n".join(f"{ref},,correctness,{value}" for ref, value in VALUES.items())
    return _written(folder / "scores.csv", f"ref,peer,metric,value\n{rows}\nelsewhere,,correctness,1\n")


def otlp():
    same = {"timeUnixNano": "1794000000000000000", "eventName": "gen_ai.evaluation.result"}
    same["traceId"] = "5b8efff798038103d269b633813fc60c"
    lines = []
    for ref, value in VALUES.items():
        said = [
            {"key": "gen_ai.evaluation.name", "value": {"stringValue": "correctness"}},
            {"key": "gen_ai.evaluation.score.value", "value": {"doubleValue": value}},
        ]
        lines.append({**same, "spanId": ref, "attributes": said})
    lines[0]["spanId"] = "eee19b7ec3c1b174"
    lines[0]["attributes"].append({"key": "gen_ai.response.id", "value": {"stringValue": REFS[0]}})
    lines.append({"eventName": "other", "attributes": []})
    return {"resourceLogs": [{"scopeLogs": [{"logRecords": lines}]}]}


def _written(file, text):
    file.write_text(text, encoding="utf-8")
    return file
