"""The command as a whole: what it lists, what it loads, how it fails."""

from __future__ import annotations

import io
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
HEAVY = ("torch", "transformers", "wordllama", "matplotlib", "sigma_mem.session", "sigma_mem.demo")
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


def test_without_arguments_it_shows_its_help(capsys: Capture) -> None:
    assert run([]) == 0
    assert "Usage: sigma-mem" in capsys.readouterr().out


def test_version(capsys: Capture) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"sigma-mem {__version__}\n"


@pytest.mark.parametrize(("path", "command"), every_command(get_command(build_app())))
def test_help_shows_every_word_of_every_option(
    path: tuple[str, ...], command: Any, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_help(path, command, capsys, monkeypatch)


@pytest.mark.parametrize("name", ["demo", "route", "vote", "decide", "feedback", "inspect"])
def test_help_has_examples(name: str, capsys: Capture) -> None:
    run([name, "--help"])
    assert f"sigma-mem {name}" in capsys.readouterr().out.split("Usage:")[1].split("\n", 1)[1]


def test_a_bug_keeps_its_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sigma_mem.session.SigmaMem", None)
    with pytest.raises(TypeError):
        run(["route", "--memory", "never-made.db", "--peers", "a,b", "Q"])
    assert not Path("never-made.db").exists()


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InputError("got this;\n expected that"), 2),
        (EncoderMismatchError("got this;\n expected that"), 2),
        (StoreBusyError("got this;\n expected that"), 1),
        (MissingExtraError("got this;\n expected that"), 1),
        (OSError("got this;\n expected that"), 1),
    ],
)
def test_errors_are_one_line_and_a_code(
    error: Exception, code: int, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    def fails(*arguments: object, **options: object) -> None:
        raise error

    monkeypatch.setattr("sigma_mem.streams.load_stream", fails)
    assert run(["learn", "x.jsonl", "--memory", "never-made.db"]) == code
    assert capsys.readouterr().err == "sigma-mem: got this; expected that\n"


def test_an_interruption_is_130(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    def interrupted(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("sigma_mem.streams.load_stream", interrupted)
    assert run(["learn", "x.jsonl", "--memory", "never-made.db"]) == 130
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["center"],
        ["center", "speed"],
        ["center", "check", "--centre"],
        ["learn"],
        ["demo", "--tasks", "x"],
        ["x"],
    ],
)
def test_a_wrong_command_line_is_exit_code_2(arguments: list[str], capsys: Capture) -> None:
    assert run(arguments) == 2
    out, err = capsys.readouterr()
    assert out.count("Usage: ") == 1 if arguments == ["center"] else err.startswith("sigma-mem: ")
    assert err.count("\n") <= 1


@pytest.mark.parametrize("name", LABORATORY)
@pytest.mark.parametrize("rest", [[], ["--help"], ["cf", "x", "--ratios", "0"]])
def test_a_command_of_the_laboratory_names_what_to_install(
    name: str, rest: list[str], capsys: Capture
) -> None:
    assert run([name, *rest]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"sigma-mem: sigma-mem {name} is a command of the laboratory")
    assert err.endswith("run: pip install sigma-lab (in a clone: pip install ./lab)\n")
    assert err.count("\n") == 1


def test_every_read_is_in_the_help(capsys: Capture) -> None:
    for command, reads in (("route", READS.routes), ("vote", READS.votes)):
        assert run([command, "--help"]) == 0
        shown = capsys.readouterr().out
        assert [read for read in reads if read not in shown] == []


def test_the_package_runs_as_a_module() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "sigma_mem", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == f"sigma-mem {__version__}"


@pytest.mark.parametrize("shell", COMPLETED)
def test_a_shell_completes_commands(shell: str) -> None:
    given = dict(pair.split("=", 1) for pair in COMPLETED[shell].split("|"))
    environment = {**os.environ, "_SIGMA_MEM_COMPLETE": f"complete_{shell}", **given}
    done = subprocess.run(
        [sys.executable, "-m", "sigma_mem"], env=environment, capture_output=True, text=True, check=False
    )
    assert "route" in done.stdout, done.stderr


def test_the_memory_may_be_named_by_a_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setenv("SIGMA_MEM_MEMORY", str(tmp_path / "memory.db"))
    assert run(["route", "2 + 2?", "--peers", "ann,bob", "--encoder", "hashed"]) == 0
    assert run(["decisions", "--limit", "1", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out.splitlines()[-1])["decisions"]) == 1


def test_scores_and_evaluate_take_the_variable_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setenv("SIGMA_MEM_MEMORY", str(tmp_path / "memory.db"))
    assert run(["route", "2 + 2?", "--peers", "ann", "--encoder", "hashed", "--ref", "r1"]) == 0
    (tmp_path / "scores.csv").write_text("ref,metric,value\nr1,helpful,1\n")
    assert run(["scores", "csv", str(tmp_path / "scores.csv"), "--metric", "helpful"]) == 0
    assert run(["evaluate", "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["decisions"] == 1
    assert run(["evaluate", str(tmp_path / "none.jsonl")]) == 2  # the stream that was named, not the memory
    assert "none.jsonl" in capsys.readouterr().err


def test_a_question_that_is_no_text_is_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xff\xfe?")))
    assert run(["route", "--memory", str(tmp_path / "memory.db"), "--peers", "ann", "-"]) == 2
    assert "UTF-8" in capsys.readouterr().err
