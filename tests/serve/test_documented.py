"""What the documentation says of service and gateway: programs run, configurations load, tables are whole."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from serve.gateway.conftest import memory_of, serving, starter
from serve.gateway.upstreams import says, upstream
from sigma_mem import Client, SigmaMem
from sigma_mem.serve.app import create_app
from sigma_mem.serve.config import ServerConfig, load_config

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "gateway"
ADDRESS = "http://127.0.0.1:8321"


def read(page):
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(page, kind="py"):
    """The blocks of code on a page."""
    return re.findall(rf"^```{kind}\n(.*?)^```", read(page), re.MULTILINE | re.DOTALL)


@pytest.fixture
def loaded(tmp_path):
    """What makes a configuration of a text."""

    def load(text):
        (tmp_path / "sigma-mem.toml").write_text(text, encoding="utf-8")
        return load_config(tmp_path / "sigma-mem.toml", environment={}).config

    return load


@pytest.fixture
def start():
    with starter() as begin:
        yield begin


def test_the_example_of_the_service_runs(capsys):
    (block,) = blocks("docs/service.md")
    with serving(create_app(ServerConfig(log="off"))) as url:
        exec(block.replace(ADDRESS, url), {"KEY": None})
    assert "gemma" in capsys.readouterr().out


def test_every_route_of_the_memory_and_every_metric_is_on_the_page():
    app, text = create_app(ServerConfig(log="off")), read("docs/reference/http.md")
    table = text[text.index("| request | role |") : text.index("`GET /openapi.json`")]
    for route in app.routes:
        if route.path.startswith("/v1/memory/{namespace}/"):
            assert f"…{route.path.removeprefix('/v1/memory/{namespace}')}" in table
    for metric in app.state.context.metrics.registry.collect():
        assert f"`{metric.name}_total`" in text or (metric.type != "counter" and f"`{metric.name}`" in text)


@pytest.mark.parametrize(
    ("page", "programs", "said"), [("README.md", 1, ["small", "391"]), ("docs/gateway.md", 2, ["small"])]
)
def test_the_gateway_works_as_it_is_written(start, loaded, capsys, page, programs, said):
    toml, *others = blocks(page, "toml")
    for other in others:
        loaded(other)
    gateway = start({upstream.name: says("391") for upstream in loaded(toml).upstreams}, explore=False)
    scope = {"__name__": "__main__"}
    for program in blocks(page):
        exec(program.replace(ADDRESS, gateway.url), scope)
    scope["client"].close()
    assert capsys.readouterr().out.split() == said
    assert memory_of(gateway).events == programs
    if page == "README.md":
        (made,) = memory_of(gateway).decisions(1)
        assert dict(made.labels) == {"small": 1.0}


def test_the_example_of_the_gateway_loads_with_its_commented_part_too(loaded):
    text = read("examples/gateway/sigma-mem.toml")
    config = loaded(text)
    assert [upstream.name for upstream in config.upstreams] == ["smollm2", "coder"]
    assert not config.needs_keys
    hosted = re.search(r"^# \[\[upstreams\]\]\n(?:# .*\n)+", text, re.MULTILINE)[0]
    config = loaded(text + re.sub("^# ", "", hosted, flags=re.MULTILINE))
    assert config.upstreams[-1].key_env == "LARGE_API_KEY"
    assert config.needs_keys


def test_the_examples_client_finds_out_whom_to_trust(start):
    gateway = start({"smollm2": says("I am not sure."), "coder": says("391")})
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLE / "client.py"), f"{gateway.url}/v1"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "trusted here: coder"


def test_a_worker_writes_through_a_service(tmp_path):
    (program,) = blocks("docs/storage.md")
    config = ServerConfig(path=str(tmp_path / "shared.db"), log="off")
    with serving(create_app(config)) as url, Client(url) as client:
        client.namespace("default", ["ann", "bob"])
        exec(program.replace(ADDRESS, url), {})
        assert client.events == 1


def test_the_tutorials_models_answer_through_openais_protocol(tmp_path, monkeypatch):
    (program,) = blocks("docs/tutorial.md")
    monkeypatch.chdir(tmp_path)
    scope = {"SigmaMem": SigmaMem}
    with upstream(says("391")) as small, upstream(says("392")) as large:
        for ours, its in ((small, "http://127.0.0.1:8000/v1"), (large, "http://127.0.0.1:8001/v1")):
            assert its in program
            program = program.replace(its, ours.url)
        exec(program, scope)
        with scope["mem"] as mem:
            said = {name: call("What is 17 * 23?") for name, call in scope["models"].items()}
            assert said == {"small": "391", "large": "392"}
            assert mem.route("What is 17 * 23?").peer in mem.peers
        for call in scope["models"].values():
            call.__closure__[0].cell_contents.close()
