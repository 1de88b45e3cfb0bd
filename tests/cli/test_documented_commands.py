"""The commands of the documentation run as written, in a fresh folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from typer.main import get_command

from sigma_mem.cli.app import build_app

PAGE = Path(__file__).parents[2] / "docs" / "command-line.md"
TEXT = PAGE.read_text(encoding="utf-8")


def test_the_shell_block_runs(tmp_path: Path) -> None:
    blocks = re.findall(r"^```sh\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 1
    (tmp_path / "sigma-mem").write_text(
        f"#!/bin/sh\nexec '{sys.executable}' -c 'from sigma_mem.cli import main; main()' \"$@\"\n"
    )
    (tmp_path / "python").symlink_to(sys.executable)
    (tmp_path / "sigma-mem").chmod(0o755)
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["sh", "-e", "-c", blocks[0]], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "taken: coder +1 from unit-tests" in done.stdout
    assert "coder: " in done.stdout.splitlines()[-2] + done.stdout.splitlines()[-1]


def test_every_command_is_in_the_table() -> None:
    for name in get_command(build_app()).list_commands(None):
        assert f"| `sigma-mem {name}` |" in TEXT
