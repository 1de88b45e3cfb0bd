"""The command as a whole: what it lists, what it loads, how it fails."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from sigma_mem import __version__
from sigma_mem.cli.app import run
from sigma_mem.cli.lazy import COMMANDS

HEAVY = ("torch", "transformers", "wordllama", "matplotlib", "sigma_mem.session", "sigma_mem.demo")


def test_help_lists_every_command_and_loads_none_of_them() -> None:
    script = (
        "import sys, json\nfrom sigma_mem.cli.app import run\ncode = run(['--help'])\n"
        f"print(json.dumps([code, [m for m in {HEAVY!r} if m in sys.modules]]))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    *lines, last = done.stdout.splitlines()
    assert json.loads(last) == [0, []]
    for name in COMMANDS:
        assert any(f" {name} " in line for line in lines)


def test_without_arguments_it_shows_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([]) == 0
    assert "Usage: sigma-mem" in capsys.readouterr().out


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"sigma-mem {__version__}\n"


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_is_mounted_and_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([name, "--help"]) == 0
    assert f"Usage: sigma-mem {name}" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["demo", "route", "vote", "feedback", "inspect"])
def test_help_has_examples(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    run([name, "--help"])
    assert f"sigma-mem {name}" in capsys.readouterr().out.split("Usage:")[1].split("\n", 1)[1]


def test_a_bug_keeps_its_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sigma_mem.cli.options.SigmaMem", None)
    with pytest.raises(TypeError):
        run(["route", "--memory", "never-made.db", "--peers", "a,b", "Q"])
    assert not Path("never-made.db").exists()
