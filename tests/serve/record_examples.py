"""One conversation with a service, from which the examples of the API's description are recorded.

python tests/serve/record_examples.py     # writes src/sigma_mem/serve/examples.json
"""

import json
import sys
from pathlib import Path

import httpx2

from sigma_mem.operations import TABLE
from sigma_mem.serve.probes import readable

FILE = Path(__file__).parents[2] / "src" / "sigma_mem" / "serve" / "examples.json"
AT = "/v1/memory/{namespace}"
QUESTION = "What is 17 * 23?"
ANSWERS = {"gemma": "391", "phi": "391", "coder": "381"}
LABELS = {"gemma": True, "phi": True, "coder": False}
CHAT = {
    "model": "sigma-mem",
    "messages": [{"role": "user", "content": QUESTION}],
    "sigma_mem": {"topic": "sums", "explore": False},
}

# Method and path, body, query; in an order in which every request is served.
CALLS = (
    ("PUT", AT, {"peers": ["gemma", "phi", "coder"]}, {}),
    ("GET", "/v1/memory", None, {}),
    ("GET", AT, None, {}),
    ("POST", f"{AT}/prices", {"peer": "coder", "per_call": 0.002, "latency": 0.8}, {}),
    ("POST", f"{AT}/route", {"question": QUESTION, "topic": "sums", "ref": "trace-7"}, {}),
    ("POST", f"{AT}/served", {"decision": "trace-7", "peer": "phi", "cost": 0.001, "latency": 0.4}, {}),
    ("POST", f"{AT}/vote", {"question": QUESTION, "answers": ANSWERS, "ref": "trace-7"}, {}),
    ("POST", f"{AT}/decide", {"question": QUESTION, "answers": ANSWERS, "ref": "trace-8"}, {}),
    ("GET", f"{AT}/unlabelled", None, {"last": 1}),
    ("POST", f"{AT}/feedback", {"decision": "trace-7", "labels": LABELS, "id": "run-7"}, {}),
    (
        "POST",
        f"{AT}/feedback/batch",
        {
            "items": [
                {"decision": "trace-8", "labels": LABELS},
                {"decision": "trace-7", "scores": {"phi": 0.9}, "amend": True},
            ]
        },
        {},
    ),
    ("POST", f"{AT}/ask", {"question": QUESTION, "ref": "trace-9"}, {}),
    ("POST", f"{AT}/ask/add", {"panel": "PANEL", "peer": "PEER", "answer": "391"}, {}),
    ("GET", f"{AT}/overview", None, {"hours": 1}),
    ("GET", f"{AT}/trend", None, {"points": 2}),
    ("GET", f"{AT}/report", None, {"hours": 24}),
    ("GET", f"{AT}/relation", None, {}),
    ("GET", "/v1/models", None, {}),
    ("GET", "/v1/models/{model}", None, {}),
    ("POST", "/v1/chat/completions", CHAT, {}),
    ("POST", "/v1/messages", CHAT | {"max_tokens": 1024}, {}),
    ("POST", "/v1/responses", {"model": "sigma-mem", "input": QUESTION}, {}),
    ("POST", "/v1/feedback", {"id": "COMPLETION", "score": 1.0}, {}),
    ("POST", "/v1/embeddings", {"model": "gemma", "input": "What is 17 * 23?"}, {}),
    ("GET", "/healthz", None, {}),
    ("GET", "/readyz", None, {}),
)


def play(http):
    """Every call with its response, as the service answers it; ids of the conversation are filled in."""
    panel = completion = None
    for method, path, body, query in CALLS:
        if path.endswith("/ask/add"):
            body = {**body, "panel": panel["panel"], "peer": panel["next"]}
        elif path == "/v1/feedback":
            body = {**body, "id": completion["id"]}
        address = path.format(namespace="support", model="sigma-mem/vote")
        response = http.request(method, address, json=body, params=query)
        if response.status_code != 200:
            raise AssertionError(f"{method} {path}: {response.text}")
        answer = response.json()
        panel = answer if path.endswith("/ask") else panel
        completion = answer if path.endswith("/completions") else completion
        yield {"method": method, "path": path, "body": body, "query": query, "response": answer}


def is_recorded(call):
    """Whether a call is none of the table's operations, whose examples are made when they are asked for."""
    table = {(each.verb, f"{AT}/{each.path}") for each in TABLE.values()}
    return (call["method"], call["path"]) not in table


def main():
    sys.path.insert(0, str(Path(__file__).parents[1]))  # as pytest does
    from serve.gateway.conftest import starter
    from serve.gateway.upstreams import says

    peers = {peer: says(answer) for peer, answer in ANSWERS.items()}
    with starter() as start, httpx2.Client(base_url=start(peers).url) as http:
        calls = [json.dumps(readable(call)) for call in play(http) if is_recorded(call)]
    FILE.write_text("[\n" + ",\n".join(calls) + "\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
