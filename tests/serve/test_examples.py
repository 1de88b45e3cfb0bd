"""The examples of the API's description: every operation of the memory has them, made by calling it."""

from serve.conftest import served
from sigma_mem.operations import TABLE


def test_every_operation_has_an_example_of_its_body_and_of_its_response():
    with served() as http:
        paths = http.get("/openapi.json").json()["paths"]
    for operation in TABLE.values():
        described = paths[f"/v1/memory/{{namespace}}/{operation.path}"][operation.verb.lower()]
        body = described.get("requestBody", {}).get("content", {})
        assert all("example" in kind for kind in body.values()), operation.name
        assert "example" in described["responses"]["200"]["content"]["application/json"], operation.name
