"""Programs of the documentation that talk to a server run against one."""

import re
from pathlib import Path

from serve.gateway.conftest import serving
from serve.gateway.upstreams import says, upstream
from sigma_mem import Client, SigmaMem
from sigma_mem.serve.app import create_app
from sigma_mem.serve.config import ServerConfig

DOCS = Path(__file__).parents[2] / "docs"


def programs(page: str) -> list[str]:
    return re.findall(
        r"^```py\n(.*?)^```", (DOCS / page).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )


def test_a_worker_writes_through_a_service(tmp_path):
    (program,) = programs("storage.md")
    config = ServerConfig(path=str(tmp_path / "shared.db"), log="off")
    with serving(create_app(config)) as url:
        with Client(url) as client:
            client.namespace("default", ["ann", "bob"])
        exec(program.replace("http://127.0.0.1:8321", url), {})
        with Client(url) as client:
            assert client.events == 1


def test_the_tutorials_models_answer_through_openais_protocol(tmp_path, monkeypatch):
    (program,) = programs("tutorial.md")
    monkeypatch.chdir(tmp_path)
    scope = {"SigmaMem": SigmaMem}
    with upstream(says("391")) as small, upstream(says("392")) as large:
        for ours, its in ((small, "http://127.0.0.1:8000/v1"), (large, "http://127.0.0.1:8001/v1")):
            assert its in program
            program = program.replace(its, ours.url)
        exec(program, scope)
        with scope["mem"] as mem:
            assert {name: call("What is 17 * 23?") for name, call in scope["models"].items()} == {
                "small": "391",
                "large": "392",
            }
            assert mem.route("What is 17 * 23?").peer in mem.peers
        for call in scope["models"].values():
            call.__closure__[0].cell_contents.close()
