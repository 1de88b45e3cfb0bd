from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sigma_mem.center.center import Center
from sigma_mem.center.load import default_dir
from sigma_mem.cli.center import app

from .families import tiny


@pytest.fixture
def folder(tokenizer: Any, tmp_path: Path) -> Path:
    tiny("llama").save_pretrained(tmp_path / "tiny")
    tokenizer.save_pretrained(tmp_path / "tiny")
    return tmp_path / "tiny"


def test_check_says_what_was_found(folder: Path) -> None:
    done = CliRunner().invoke(app, ["check", "--center", str(folder), "--json"], catch_exceptions=False)
    found = json.loads(done.stdout)
    assert (found["blocks"], found["steered"], found["hidden"]) == (6, [3, 5], 32)
    assert (found["split"], found["shares prefix"]) == (True, True)
    table = CliRunner().invoke(app, ["check", "--center", str(folder)], catch_exceptions=False).stdout
    assert "fingerprint" in table
    assert found["fingerprint"] in table


def test_pull_finds_what_is_there(smollm2: Center) -> None:
    done = CliRunner().invoke(app, ["pull", "--json"], catch_exceptions=False)
    assert json.loads(done.stdout) == {"folder": str(default_dir())}
