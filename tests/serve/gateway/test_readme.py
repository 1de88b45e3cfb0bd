"""The gateway of the README works as it is written."""

import re
from pathlib import Path

from serve.gateway.conftest import memory_of
from serve.gateway.upstreams import says
from sigma_mem.serve.config import load_config

README = (Path(__file__).parents[3] / "README.md").read_text(encoding="utf-8")


def test_the_readmes_client_asks_the_gateway_and_teaches_it(start, tmp_path, capsys):
    blocks = dict(re.findall(r"^```(toml|py)\n(.*?)^```", README, re.MULTILINE | re.DOTALL))
    (tmp_path / "sigma-mem.toml").write_text(blocks["toml"], encoding="utf-8")
    config = load_config(tmp_path / "sigma-mem.toml", environment={}).config
    gateway = start({upstream.name: says("391") for upstream in config.upstreams})
    scope = {}
    exec(blocks["py"].replace("http://127.0.0.1:8321", gateway.url), scope)
    scope["client"].close()
    chosen, answer = capsys.readouterr().out.split()
    assert answer == "391"
    (made,) = memory_of(gateway).decisions(1)
    assert dict(made.labels) == {chosen: 1.0}
