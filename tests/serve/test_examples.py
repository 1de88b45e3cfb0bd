"""The examples of the API's description: every operation has them, and a service really says so."""

import re

import httpx2
import pytest

from serve.gateway.conftest import starter
from serve.gateway.upstreams import says
from serve.record_examples import ANSWERS, is_recorded, play
from sigma_mem.serve.probes import recorded_examples

FILES = {"/v1/memory/{namespace}/export", "/v1/memory/{namespace}/restore", "/v1/memory/{namespace}/backup"}
DAY = re.compile(r"\d{4}-\d\d-\d\d|[0-9a-f]{8}-\d+")


@pytest.fixture(scope="module")
def http():
    peers = {peer: says(answer) for peer, answer in ANSWERS.items()}
    with starter() as start, httpx2.Client(base_url=start(peers).url) as http:
        yield http


def shape(value):
    """What kind of value it is, without what differs from run to run."""
    if isinstance(value, dict):
        return {DAY.sub("a day", key): shape(each) for key, each in value.items()}
    if isinstance(value, list):
        return [shape(each) for each in value]
    return (
        "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__
    )


def test_the_recorded_conversation_is_the_one_a_service_has(http):
    """Where this fails the API has changed: run python tests/serve/record_examples.py."""
    for said, recorded in zip(filter(is_recorded, play(http)), recorded_examples(), strict=True):
        what = f"{said['method']} {said['path']}"
        assert what == f"{recorded['method']} {recorded['path']}"
        assert shape(said["response"]) == shape(recorded["response"]), what


def test_every_operation_has_an_example_of_its_body_and_of_its_response(http):
    for path, operations in http.get("/openapi.json").json()["paths"].items():
        for method, operation in operations.items():
            if path in FILES or path in (
                "/metrics",
                "/v1/messages/count_tokens",
                "/v1/logs",
            ):  # files, text, another's count, another's protocol
                continue
            body = operation.get("requestBody", {}).get("content", {})
            assert all("example" in kind for kind in body.values()), (method, path)
            assert "example" in operation["responses"]["200"]["content"]["application/json"], (method, path)
