"""Examples in the API's description: of operations, made by calling them; of the rest, recorded."""

import json
from functools import cache
from importlib.resources import files
from typing import Any

from sigma_mem.operations import TABLE
from sigma_mem.serve.calls import namespace_body
from sigma_mem.session import SigmaMem
from sigma_mem.wire import as_json, sent_arguments

_JSON = "application/json"
_AT = "/v1/memory/{namespace}"


def recorded_examples() -> list[dict[str, Any]]:
    """What was recorded from a service: method, path, body, query and response of every call."""
    text = files("sigma_mem.serve").joinpath("examples.json").read_text(encoding="utf-8")
    calls: list[dict[str, Any]] = json.loads(text)
    return calls


@cache
def _performed() -> list[dict[str, Any]]:
    """The example of every operation, on a memory that begins empty: the table is in an order that works."""
    mem = SigmaMem(["gemma", "phi", "coder"], encoder="hashed")
    made = []
    for operation in TABLE.values():
        found = operation.method(mem, **operation.example)
        sent = sent_arguments(operation.example)
        body, query = (sent, {}) if operation.verb == "POST" else (None, sent)
        answer = namespace_body("default", mem) if found is None else operation.body(found)
        response = readable(json.loads(as_json(answer)))
        path = f"{_AT}/{operation.path}"
        made.append(
            {"method": operation.verb, "path": path, "body": body, "query": query, "response": response}
        )
    return made


def readable(value: Any) -> Any:
    """The same, with φ cut short: its 683 characters say nothing to a person."""
    if isinstance(value, list):
        return [readable(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        key: f"{each[:16]}…" if key == "phi" and isinstance(each, str) else readable(each)
        for key, each in value.items()
    }


def add_examples(schema: dict[str, Any]) -> None:
    """Put the examples into an OpenAPI schema."""
    for call in (*recorded_examples(), *_performed()):
        operation = schema["paths"][call["path"]][call["method"].lower()]
        if call["body"] is not None:
            operation["requestBody"]["content"][_JSON]["example"] = call["body"]
        for parameter in operation.get("parameters", ()):
            if parameter["in"] == "query" and parameter["name"] in call["query"]:
                parameter["example"] = call["query"][parameter["name"]]
        answered = operation["responses"]["200"].setdefault("content", {}).setdefault(_JSON, {})
        answered["example"] = call["response"]
