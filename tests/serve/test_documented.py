"""The page on the service says what there is, and its example runs."""

import re
from pathlib import Path

from serve.gateway.conftest import serving
from sigma_mem.serve.app import create_app
from sigma_mem.serve.config import ServerConfig

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "service.md").read_text(encoding="utf-8")
REFERENCE = (DOCS / "reference" / "http.md").read_text(encoding="utf-8")


def test_the_example_runs(capsys):
    (block,) = re.findall(r"^```py\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    with serving(create_app(ServerConfig(log="off"))) as url:
        exec(block.replace("http://127.0.0.1:8321", url), {"KEY": None})
    assert "gemma" in capsys.readouterr().out


def test_every_route_of_the_memory_is_in_the_table():
    app = create_app(ServerConfig(log="off"))
    table = REFERENCE[REFERENCE.index("| request | role |") : REFERENCE.index("`GET /openapi.json`")]
    for route in app.routes:
        if route.path.startswith("/v1/memory/{namespace}/"):
            name = route.path.removeprefix("/v1/memory/{namespace}")
            assert f"…{name}" in table, route.path


def test_every_metric_is_on_the_page():
    context = create_app(ServerConfig(log="off")).state.context
    for metric in context.metrics.registry.collect():
        name = f"{metric.name}_total" if metric.type == "counter" else metric.name
        assert f"`{name}`" in REFERENCE
