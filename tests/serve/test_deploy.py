"""The files in deploy/: what they tell the service is what it understands."""

import json
import os
import re
import shlex
import shutil
import subprocess
from dataclasses import fields
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from sigma_mem.cli.app import run
from sigma_mem.serve.app import check_safe
from sigma_mem.serve.config import PREFIX, TABLES, ServerConfig, load_config
from sigma_mem.serve.keys import KeyRing, add_key
from sigma_mem.serve.telemetry import Metrics

DEPLOY = Path(__file__).parents[2] / "deploy"
VARIABLES = {f"{PREFIX}{field.name.upper()}" for field in fields(ServerConfig)} | {
    f"{PREFIX}{table.upper()}_{field.name.upper()}"
    for table, kind in TABLES.items()
    for field in fields(kind)
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
    kept = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    assert {"!src", "!pyproject.toml", "!deploy/requirements.txt", "!README.md"} <= set(kept)


def test_the_image_installs_only_files_whose_hashes_are_locked():
    """Every package that the extras of the image need, at the version that is tested, with a hash."""
    image = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ")
    installs = re.findall(r"pip install (.*)", image)
    assert len(installs) == 2
    assert "--require-hashes" in installs[0]
    assert {"--no-deps", "--no-index", "--no-build-isolation"} <= set(installs[1].split())
    lines = (DEPLOY / "requirements.txt").read_text().splitlines()[1:]
    locked = [re.fullmatch(r"([a-z0-9._-]+)==(\S+) --hash=sha256:[0-9a-f]{64}", line) for line in lines]
    assert all(locked)
    versions = {canonicalize_name(match[1]): match[2] for match in locked}
    wanted, seen = [Requirement("sigma-mem[mcp,postgres,serve]")], set()
    while wanted:  # all that is needed, from what is installed here
        needed = wanted.pop()
        for one in map(Requirement, metadata.requires(needed.name) or ()):
            given = [{"extra": extra} for extra in needed.extras or {""}]
            if str(one) in seen or (one.marker and not any(map(one.marker.evaluate, given))):
                continue
            seen.add(str(one))
            wanted.append(one)
            if one.name != "sigma-mem":  # which names extras of its own
                assert one.specifier.contains(versions[canonicalize_name(one.name)], prereleases=True), one
    assert len(seen) > 20
    for line in (DEPLOY.parent / "constraints.txt").read_text().splitlines():
        if "==" in line and (name := canonicalize_name(line.split("==")[0])) in versions:
            assert line.split("==")[1] == versions[name]


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


def test_the_dashboard_and_the_alert_rules_use_metrics_that_there_are():
    board = json.loads((DEPLOY / "grafana.json").read_text())
    rules = yaml.safe_load((DEPLOY / "alerts.yaml").read_text())["groups"][0]["rules"]
    used = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    used += [rule["expr"] for rule in rules]
    metrics = Metrics()
    there = {
        name: set(metric._labelnames)
        for collector, names in metrics.registry._collector_to_names.items()
        for name in names
        for metric in [collector]
    }
    for expression in used:
        names = re.findall(r"sigma_mem_\w+", expression)
        assert names
        assert set(names) <= set(there), expression
        labels = set(re.findall(r"(?:by \(|\{)(\w+)", expression)) - {"le"}
        assert labels <= set().union(*(there[name] for name in names)), expression
    told = metrics.text().decode()
    for name, label, values in re.findall(r'increase\((\w+)\{(\w+)=~?"([^"]+)"', " ".join(used)):
        for value in values.split("|"):  # an increase is only seen of a number that was there before
            assert f'{name}{{{label}="{value}"}} 0.0' in told
    shown = {name for expression in used for name in re.findall(r"sigma_mem_\w+", expression)}
    own = {metric.name for metric in metrics.registry.collect()}
    assert {name.removesuffix("_total").removesuffix("_bucket") for name in shown} == own
