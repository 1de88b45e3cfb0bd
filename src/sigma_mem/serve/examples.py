"""Examples in the API's description: requests and responses of one recorded conversation with a service."""

import json
from functools import cache
from importlib.resources import files
from typing import Any

_JSON = "application/json"


@cache
def recorded_examples() -> list[dict[str, Any]]:
    """Every call of the conversation: method, path, body, query and response."""
    text = files("sigma_mem.serve").joinpath("examples.json").read_text(encoding="utf-8")
    calls: list[dict[str, Any]] = json.loads(text)
    return calls


def add_examples(schema: dict[str, Any]) -> None:
    """Put the recorded requests and responses into an OpenAPI schema."""
    for call in recorded_examples():
        operation = schema["paths"][call["path"]][call["method"].lower()]
        if call["body"] is not None:
            operation["requestBody"]["content"][_JSON]["example"] = call["body"]
        for parameter in operation.get("parameters", ()):
            if parameter["in"] == "query" and parameter["name"] in call["query"]:
                parameter["example"] = call["query"][parameter["name"]]
        answered = operation["responses"]["200"].setdefault("content", {}).setdefault(_JSON, {})
        answered["example"] = call["response"]
