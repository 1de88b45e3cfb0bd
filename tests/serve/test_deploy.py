"""The files in deploy/: what they tell the service is what it understands."""

import os
import re
import shlex
import shutil
import subprocess
from dataclasses import fields
from pathlib import Path

import pytest
import yaml

from sigma_mem.cli.app import run
from sigma_mem.serve.app import check_safe
from sigma_mem.serve.config import PREFIX, RequestLimits, ServerConfig, load_config
from sigma_mem.serve.keys import KeyRing, add_key

DEPLOY = Path(__file__).parents[2] / "deploy"
VARIABLES = {f"{PREFIX}{field.name.upper()}" for field in fields(ServerConfig)} | {
    f"{PREFIX}LIMITS_{field.name.upper()}" for field in fields(RequestLimits)
}


def test_the_configuration_to_start_from_is_safe_and_complete(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LARGE_API_KEY", "sk-of-the-upstream")
    loaded = load_config(DEPLOY / "sigma-mem.toml", environment={}).config
    add_key(loaded.keys, "ci", {"*": "write"}, 0.0)
    check_safe(loaded, KeyRing(loaded.keys))
    assert [upstream.name for upstream in loaded.upstreams] == ["gemma", "large"]
    assert loaded.needs_keys


def test_the_image_sets_variables_that_there_are_and_needs_a_key(tmp_path, capsys, monkeypatch):
    text = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ")
    given = dict(part.split("=", 1) for part in shlex.split(re.search(r"^ENV (.*)$", text, re.MULTILINE)[1]))
    ours = {
        name: value.replace("/data", str(tmp_path)) for name, value in given.items() if name[:6] == PREFIX[:6]
    }
    assert set(ours) <= VARIABLES
    for name, value in ours.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    assert run(["serve", "--port", "0"]) == 2  # as `docker run` does it before a key was made
    assert "make one first: sigma-mem keys add" in capsys.readouterr().err
    extras = re.search(r'"/src\[([a-z,]+)\]"', text)[1].split(",")
    assert {"mcp", "postgres", "serve"} <= set(extras)
    kept = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    assert {"!src", "!pyproject.toml", "!constraints.txt", "!README.md"} <= set(kept)


def test_the_compose_file_sets_variables_that_there_are():
    composed = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    service, database = composed["services"]["service"], composed["services"]["database"]
    assert {name for name in service["environment"] if name.startswith(PREFIX)} <= VARIABLES
    assert (DEPLOY / service["build"]["context"] / service["build"]["dockerfile"]).samefile(
        DEPLOY / "Dockerfile"
    )
    user, name = database["environment"]["POSTGRES_USER"], database["environment"]["POSTGRES_DB"]
    address = service["environment"]["SIGMA_MEM_PATH"]
    assert address == f"postgresql://{user}@database/{name}"
    assert service["environment"]["PGPASSWORD"].startswith("${POSTGRES_PASSWORD:")
    named = {volume.split(":")[0] for each in (service, database) for volume in each["volumes"]}
    assert named == set(composed["volumes"])


def test_the_unit_starts_a_command_that_there_is(tmp_path, capsys):
    unit = (DEPLOY / "sigma-mem.service").read_text()
    command = shlex.split(re.search(r"^ExecStart=(.*)$", unit, re.MULTILINE)[1])
    assert run([command[1], "--help"]) == 0
    assert all(flag in capsys.readouterr().out for flag in command[2:] if flag.startswith("--"))
    if (checker := shutil.which("systemd-analyze")) is None:
        pytest.skip("systemd-analyze is not here, and the unit was only read")
    program = tmp_path / "sigma-mem"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    file = tmp_path / "sigma-mem.service"
    file.write_text(unit.replace(command[0], str(program)))
    checked = subprocess.run(
        [checker, "verify", "--man=no", file],
        capture_output=True,
        text=True,
        env={**os.environ, "LC_ALL": "C"},
    )
    assert (checked.returncode, checked.stderr) == (0, "")
