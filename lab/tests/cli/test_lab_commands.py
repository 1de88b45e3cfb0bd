"""The commands that the laboratory adds to sigma-mem: what is listed, what is loaded, how they fail."""

import subprocess
import sys
from importlib.metadata import entry_points
from typing import Any

import pytest
from typer.main import get_command

from shown import check_help, every_command
from sigma_mem.cli.app import GROUP, LABORATORY, build_app, run

Capture = pytest.CaptureFixture[str]
ADDED = {entry.name: get_command(entry.load()) for entry in entry_points(group=GROUP)}
COMMANDS = [
    found
    for name, command in ADDED.items()
    for found in [((name,), command), *(every_command(command, name) if hasattr(command, "commands") else ())]
]
HEAVY = ("torch", "transformers", "wordllama", "matplotlib", "sigma_mem.serve", "sigma_lab.bench")


def loaded_after(*arguments: str) -> set[str]:
    script = f"import sys\nfrom sigma_mem.cli.app import run\nrun({list(arguments)!r})\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


def test_the_product_knows_what_the_laboratory_adds() -> None:
    assert sorted(ADDED) == sorted(LABORATORY)


def test_help_lists_the_commands_and_loads_no_more_than_their_options(capsys: Capture) -> None:
    app: Any = get_command(build_app())
    assert set(LABORATORY) <= set(app.list_commands(None))
    assert run(["--help"]) == 0
    research = capsys.readouterr().out.split("─ Research ─")[1]
    assert [name for name in (*LABORATORY, "center") if f"│ {name} " not in research] == []
    assert not loaded_after("--help").intersection(HEAVY)


def test_a_command_of_the_product_loads_nothing_of_the_laboratory() -> None:
    loaded = loaded_after("route", "--help")
    assert "sigma_mem.cli" in loaded
    assert [name for name in loaded if name.startswith("sigma_lab")] == []


@pytest.mark.parametrize(("path", "command"), COMMANDS)
def test_help_shows_every_word_of_every_option(
    path: tuple[str, ...], command: Any, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_help(path, command, capsys, monkeypatch)


@pytest.mark.parametrize(
    "arguments", [["bench"], ["bench", "cf"], ["bench", "cf", "x", "--ratio"], ["import"], ["paper", "--x"]]
)
def test_a_wrong_command_line_is_exit_code_2(arguments: list[str], capsys: Capture) -> None:
    assert run(arguments) == 2
    out, err = capsys.readouterr()
    assert out.count("Usage: ") == 1 if arguments == ["bench"] else err.startswith("sigma-mem: ")
    assert err.count("\n") <= 1
