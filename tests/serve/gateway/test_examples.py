"""The page on the gateway and its examples work as they are written."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

from serve.gateway.conftest import memory_of
from serve.gateway.upstreams import says
from sigma_mem.serve.config import load_config

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "gateway"
PAGE = (ROOT / "docs" / "gateway.md").read_text(encoding="utf-8")
ADDRESS = "http://127.0.0.1:8321"


def test_the_example_is_a_configuration_that_loads():
    config = load_config(EXAMPLE / "sigma-mem.toml", environment={}).config
    assert [upstream.name for upstream in config.upstreams] == ["smollm2", "coder"]
    assert not config.needs_keys


def test_the_commented_part_of_the_example_loads_too(tmp_path):
    text = (EXAMPLE / "sigma-mem.toml").read_text(encoding="utf-8")
    hosted = re.search(r"^# \[\[upstreams\]\]\n(?:# .*\n)+", text, re.MULTILINE)[0].replace("# ", "", 1)
    (tmp_path / "a.toml").write_text(text + re.sub("^# ", "", hosted, flags=re.MULTILINE), encoding="utf-8")
    config = load_config(tmp_path / "a.toml", environment={}).config
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


def test_the_code_of_the_page_runs(start, tmp_path, capsys):
    toml, *others = re.findall(r"^```toml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    for number, other in enumerate(others):
        (tmp_path / f"{number}.toml").write_text(other, encoding="utf-8")
        load_config(tmp_path / f"{number}.toml", environment={})
    (tmp_path / "sigma-mem.toml").write_text(toml, encoding="utf-8")
    config = load_config(tmp_path / "sigma-mem.toml", environment={}).config
    assert tomllib.loads(toml)["path"] == config.path
    gateway = start({upstream.name: says("391") for upstream in config.upstreams})
    scope = {"__name__": "__main__"}
    blocks = re.findall(r"^```py\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        exec(block.replace(ADDRESS, gateway.url), scope)
    scope["client"].close()
    assert capsys.readouterr().out.strip() in ("small", "large")
    assert memory_of(gateway).events == 2
