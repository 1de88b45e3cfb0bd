"""Every command that the documentation shows is one, and blocks that need no model of their own run."""

from __future__ import annotations

import csv
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from sigma_mem.answers import canon
from sigma_mem.cli.app import build_app, run
from sigma_mem.events import Answer, Event
from sigma_mem.streams import Stream, save_stream

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
SHELL = ("sh", "console", "text", "")
COMMAND = re.compile(r"\bsigma-mem ((?:[^\n;|\"']|\"[^\"]*\"|'[^']*')*)")


def blocks(page: Path, languages: tuple[str, ...]) -> list[str]:
    found = BLOCK.findall(page.read_text(encoding="utf-8"))
    return [text.replace("\\\n", " ") for language, text in found if language in languages]


def commands(page: Path, languages: tuple[str, ...] = SHELL) -> list[str]:
    """The words of every command in a block, without comments."""
    shown = "\n".join(blocks(page, languages))
    lines = [re.sub(r"\s#\s.*|\s#$", "", line) for line in shown.splitlines()]
    return [words for line in lines for words in COMMAND.findall(line) if words.strip()]


def test_commands_have_the_arguments_that_are_shown() -> None:
    every = [words for page in PAGES for words in commands(page)]
    assert len(every) > 40
    app = get_command(build_app())
    for words in every:
        parse(app, shlex.split(words.rstrip(") ")))


def parse(command: Any, rest: list[str]) -> None:
    """Take the arguments as the command line does, without doing anything; an error names what is wrong."""
    context = command.make_context("sigma-mem", list(rest))
    while hasattr(command, "commands") and rest and not rest[0].startswith("-"):
        name, command, rest = command.resolve_command(context, rest)
        shown = "…" in rest or any(word.isupper() for word in rest)  # as in "--peer NAME=SPEC …"
        context = command.make_context(name, list(rest), parent=context, resilient_parsing=shown)
        rest = [*context._protected_args, *context.args] if hasattr(command, "commands") else []


def files(folder: Path) -> None:
    """What the commands on keeping a memory read."""
    events = [
        Event(
            str(i),
            f"What is {i} + 1?",
            {"gemma": Answer(str(i + 1), canon(str(i + 1))), "phi": Answer("0", canon("0"))},
            {"gemma": 1.0, "phi": -1.0},
        )
        for i in range(3)
    ]
    save_stream(Stream("s", ("gemma", "phi"), tuple(events)), folder / "stream.jsonl.gz")
    rows = [
        {"prompt": f"q{i}", "model": peer, "output": "1", "grade": grade}
        for i in range(3)
        for peer, grade in (("gemma", "1"), ("phi", "0"))
    ]
    with (folder / "log.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = {"question": ["a", "b"], "gemma_out": ["1", "2"], "gemma_ok": [1, 0], "phi_ok": [0.0, 1.0]}
    parquet.write_table(arrow.table(table), folder / "wide.parquet")


@pytest.mark.parametrize("page", ["service.md", "storage.md"])
def test_the_commands_of_a_page_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files(tmp_path)
    monkeypatch.chdir(tmp_path)
    every = commands(ROOT / "docs" / page, ("console",))
    assert len(every) == 3
    for words in every:
        assert run(shlex.split(words)) == 0
