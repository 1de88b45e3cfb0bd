"""Every command below a group, and what its help must show."""

from __future__ import annotations

import re
from typing import Any

import pytest

from sigma_mem.cli.app import run


def every_command(group: Any, *path: str) -> list[tuple[tuple[str, ...], Any]]:
    """All commands below a group, with the words that call them."""
    found = []
    for name, command in group.commands.items():
        found.append(((*path, name), command))
        if hasattr(command, "commands"):
            found += every_command(command, *path, name)
    return found


def check_help(
    path: tuple[str, ...], command: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every word of every option is there."""
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.setattr("typer.rich_utils.MAX_WIDTH", 300)
    assert run([*path, "--help"]) == 0
    shown = _words(capsys.readouterr().out)
    assert f"Usage: sigma-mem {' '.join(path)} " in shown
    for option in command.params:  # markup in square brackets would be eaten
        assert _words(option.help or "") in shown
    for line in (command.help or "").splitlines():
        assert _words(line) in shown


def _words(text: str) -> str:
    return re.sub(r"[\s│]+", " ", text).strip()
