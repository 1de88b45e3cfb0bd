"""The command as a whole: what it lists, what it loads, how it fails."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib.metadata import EntryPoints
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from shown import check_help, every_command
from sigma_mem import __version__
from sigma_mem.cli.app import LABORATORY, build_app, run
from sigma_mem.decide import READS
from sigma_mem.errors import EncoderMismatchError, InputError, MissingExtraError, StoreBusyError

Capture = pytest.CaptureFixture[str]
HEAVY = ("torch", "transformers", "wordllama", "matplotlib", "sigma_mem.serve", "sigma_mem.demo")
ALONE = "import importlib.metadata as m; m.entry_points = lambda **_: m.EntryPoints()"
COMPLETED = {"bash": "COMP_WORDS=sigma-mem ro|COMP_CWORD=1", "zsh": "_TYPER_COMPLETE_ARGS=sigma-mem ro"}
PANELS = {
    "Start": ["demo"],
    "Decide and teach": ["route", "vote", "decide", "ask", "feedback", "scores", "learn"],
    "Look": ["trust", "inspect", "decisions", "explain", "report", "evaluate", "pool"],
    "Keep": [
        *("prices", "sources", "forget", "check", "backup", "export", "restore", "refold", "merge"),
        *("peers", "db"),
    ],
    "Serve": ["serve", "config", "mcp", "keys"],
    "Research": ["center"],
}


@pytest.fixture(autouse=True)
def _without_the_laboratory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: EntryPoints())


def test_help_lists_every_command_and_loads_none_of_them() -> None:
    script = (
        f"{ALONE}\nimport sys, json\nfrom sigma_mem.cli.app import run\ncode = run(['--help'])\n"
        f"print(json.dumps([code, [m for m in {HEAVY!r} if m in sys.modules]]))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    *lines, last = done.stdout.splitlines()
    assert json.loads(last) == [0, []]
    assert sorted(get_command(build_app()).commands) == sorted(chain(*PANELS.values()))
    listed: dict[str, list[str]] = {}
    for line in lines:
        if panel := re.match(r"╭─ ([\w ]+) ─", line):
            listed[panel[1]] = []
        elif command := re.match(r"│ ([a-z]+) ", line):
            list(listed.values())[-1].append(command[1])
    del listed["Options"]
    assert listed == PANELS


def test_without_arguments_it_shows_its_help(call):
    assert "Usage: sigma-mem" in call()


@pytest.mark.parametrize(("path", "command"), every_command(get_command(build_app())))
def test_help_shows_every_word_of_every_option(
    path: tuple[str, ...], command: Any, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_help(path, command, capsys, monkeypatch)


@pytest.mark.parametrize("name", ["demo", "route", "vote", "decide", "feedback", "inspect"])
def test_help_has_examples(name, call):
    assert f"sigma-mem {name}" in call(name, "--help").split("Usage:")[1].split("\n", 1)[1]


def test_a_bug_keeps_its_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sigma_mem.cli.options.SigmaMem", None)
    with pytest.raises(TypeError):
        run(["route", "--memory", "never-made.db", "--peers", "a,b", "Q"])
    assert not Path("never-made.db").exists()


@pytest.mark.parametrize(
    ("error", "code"),
    [(InputError, 2), (EncoderMismatchError, 2), (StoreBusyError, 1), (MissingExtraError, 1), (OSError, 1)],
)
def test_errors_are_one_line_and_a_code(error, code, monkeypatch, call):
    def fails(*arguments, **options):
        raise error("got this;\n expected that")

    monkeypatch.setattr("sigma_mem.cli.options.load_stream", fails)
    said = call("learn", "x.jsonl", "--memory", "never-made.db", code=code)
    assert said == "sigma-mem: got this; expected that"


def test_an_interruption_is_130(monkeypatch, capsys):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("sigma_mem.cli.options.load_stream", interrupted)
    assert run(["learn", "x.jsonl", "--memory", "never-made.db"]) == 130
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("line", ["center speed", "center check --centre", "learn"])
def test_a_wrong_command_line_is_exit_code_2(line, call):
    call(*line.split(), code=2)


def test_a_group_alone_shows_its_help(capsys):
    assert run(["center"]) == 2
    out, err = capsys.readouterr()
    assert (out.count("Usage: "), err) == (1, "")


@pytest.mark.parametrize("name", LABORATORY)
@pytest.mark.parametrize("rest", [[], ["--help"], ["cf", "x", "--ratios", "0"]])
def test_a_command_of_the_laboratory_names_what_to_install(name, rest, call):
    said = call(name, *rest, code=2)
    assert said.startswith(f"sigma-mem: sigma-mem {name} is a command of the laboratory")
    assert said.endswith("run: pip install sigma-lab (in a clone: pip install ./lab)")


@pytest.mark.parametrize(("command", "reads"), [("route", READS.routes), ("vote", READS.votes)])
def test_every_read_is_in_the_help(command, reads, call):
    shown = call(command, "--help")
    assert [read for read in reads if read not in shown] == []


def test_the_package_runs_as_a_module() -> None:
    said = subprocess.check_output([sys.executable, "-m", "sigma_mem", "--version"], text=True)
    assert said.strip() == f"sigma-mem {__version__}"


@pytest.mark.parametrize("shell", COMPLETED)
def test_a_shell_completes_commands(shell: str) -> None:
    given = dict(pair.split("=", 1) for pair in COMPLETED[shell].split("|"))
    environment = {**os.environ, "_SIGMA_MEM_COMPLETE": f"complete_{shell}", **given}
    done = subprocess.run(
        [sys.executable, "-m", "sigma_mem"], env=environment, capture_output=True, text=True, check=False
    )
    assert "route" in done.stdout, done.stderr


def test_the_memory_may_be_named_by_a_variable(file, tmp_path, call, values):
    call("route", "2 + 2?", "--peers", "ann", "--encoder", "hashed", "--ref", "r1")
    (tmp_path / "scores.csv").write_text("ref,metric,value\nr1,helpful,1\n")
    call("scores", "csv", tmp_path / "scores.csv", "--metric", "helpful")
    assert values("evaluate")["decisions"] == 1
    named = tmp_path / "none.jsonl"  # a stream goes before the variable
    assert "none.jsonl" in call("evaluate", named, code=2)
