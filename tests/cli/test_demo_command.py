"""``sigma-mem demo`` from the outside."""

from __future__ import annotations

import json
import re
import socket
import sys
from pathlib import Path

import pytest

from sigma_mem.cli.app import run
from sigma_mem.demo.run import UNGRADED


def test_json_twice_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    seen = []
    for _ in range(2):
        assert run(["demo", "--tasks", "60", "--seed", "2", "--json"]) == 0
        seen.append(capsys.readouterr().out)
    assert seen[0] == seen[1]
    values = json.loads(seen[0])
    assert (values["tasks"], values["seed"], values["fault"]["after_task"]) == (60, 2, 30)


def test_quiet_prints_the_table_only(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["demo", "--tasks", "20", "--quiet"]) == 0
    out = capsys.readouterr().out
    assert "Σ-Mem route" in out
    assert "trusted:" not in out


def test_its_memory_can_be_inspected_afterwards(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    memory = str(tmp_path / "demo.db")
    assert run(["demo", "--tasks", "20", "--json", "--memory", memory]) == 0
    capsys.readouterr()
    assert run(["inspect", "--memory", memory, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["events"] == 20
    assert run(["demo", "--tasks", "20", "--memory", memory]) == 2
    assert "exists" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--tasks", "1"], "--tasks"),
        (["--tasks", "many"], "--tasks"),
        (["--speed", "-1"], "--speed"),
    ],
)
def test_bad_options(arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["demo", "--quiet", "--tasks", "4", *arguments]) == 2
    err = capsys.readouterr().err
    assert len(err.splitlines()) == 1
    assert told in err


def test_served_it_prints_the_dashboard_first_and_ends_by_itself(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("sigma-mem.toml").write_text("port = 1\nkeys = 'nowhere'\n")  # no matter to the demo
    monkeypatch.setenv("SIGMA_MEM_HOST", "0.0.0.0")
    assert run(["demo", "--serve", "--tasks", "20", "--memory", "demo.db"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"dashboard: http://127\.0\.0\.1:\d+/dashboard/#/default/trust/topic=\w+", lines[0])
    assert any(line.startswith("task    20") for line in lines)
    assert run(["inspect", "--memory", "demo.db", "--json"]) == 0  # the service has let go of its file
    assert json.loads(capsys.readouterr().out)["events"] == 20 + UNGRADED


def test_served_on_a_port_that_is_taken_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert run(["demo", "--serve", "--tasks", "20", "--port", str(taken.getsockname()[1])]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "did not start" in line
    assert "port" in line


def test_served_without_the_extra_names_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "fastapi", None)
    assert run(["demo", "--serve", "--tasks", "20"]) == 1
    assert "sigma-mem[serve]" in capsys.readouterr().err
