"""The README and the documentation are run: every Python block, every command that is shown, every link."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from sigma_mem.cli.app import build_app, run
from sigma_mem.decide import READS
from sigma_mem.events import Answer, Event
from sigma_mem.streams import Stream, save_stream

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
TEXTS = {page: page.read_text(encoding="utf-8") for page in PAGES}
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"(?:`|^)sigma-mem ([a-z]+)", re.MULTILINE)
COMMAND = re.compile(r"\bsigma-mem ((?:[^\n;|\"']|\"[^\"]*\"|'[^']*')*)")
SHELL = ("sh", "console", "text", "")


def blocks(page: Path, *languages: str) -> list[str]:
    return [text for language, text in BLOCK.findall(TEXTS[page]) if language in languages]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_code_of_a_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    scope: dict[str, object] = {"__name__": "__main__"}
    for number, block in enumerate(blocks(page, "python")):
        exec(compile(block, f"{page.name}, block {number + 1}", "exec"), scope)
    if page.name == "README.md":
        assert "mem" in scope


def test_the_readme_starts_with_the_two_commands() -> None:
    first, *_ = blocks(ROOT / "README.md", "sh")
    assert [line.split("#")[0].strip() for line in first.splitlines()] == ["make run", "make test"]


def test_every_command_that_a_page_names_is_there_and_listed() -> None:
    known = get_command(build_app()).list_commands(None)
    for page, text in TEXTS.items():
        assert [name for name in NAMED.findall(text) if name not in known] == [], page.name
    listed = TEXTS[ROOT / "docs" / "command-line.md"]
    assert [name for name in known if f"| `sigma-mem {name}` |" not in listed] == []


def test_the_commands_of_the_page_on_the_command_line_run(tmp_path: Path) -> None:
    (block,) = blocks(ROOT / "docs" / "command-line.md", "sh")
    (tmp_path / "sigma-mem").write_text(f"#!/bin/sh\nexec '{sys.executable}' -m sigma_mem \"$@\"\n")
    (tmp_path / "sigma-mem").chmod(0o755)
    (tmp_path / "python").symlink_to(sys.executable)
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["sh", "-e", "-c", block], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "taken: coder +1 from unit-tests" in done.stdout
    assert "coder: " in done.stdout.splitlines()[-2] + done.stdout.splitlines()[-1]


def commands(page: Path, languages: tuple[str, ...] = SHELL) -> list[str]:
    """The words of every command in a block, without comments."""
    shown = "\n".join(blocks(page, *languages)).replace("\\\n", " ")
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
    correct = {"gemma": 1.0, "phi": -1.0}
    answers = [{"gemma": Answer(str(i + 1), str(i + 1)), "phi": Answer("0", "0")} for i in range(3)]
    events = [Event(str(i), f"What is {i} + 1?", said, correct) for i, said in enumerate(answers)]
    save_stream(Stream("s", ("gemma", "phi"), tuple(events)), folder / "stream.jsonl.gz")
    rows = [f"q{i},{peer},1,{grade}" for i in range(3) for peer, grade in (("gemma", 1), ("phi", 0))]
    (folder / "log.csv").write_text("\n".join(["prompt,model,output,grade", *rows]))
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


def test_every_read_is_explained_and_no_other() -> None:
    decisions = TEXTS[ROOT / "docs" / "decisions.md"]
    benchmarks = TEXTS[ROOT / "docs" / "lab" / "benchmarks.md"]
    for read in READS:
        assert f"`{read.name}`" in decisions or f"mem.{read.name}(" in decisions, read.name
        assert read.needs == "center" or f"`{read.name}`" in benchmarks, read.name
    listed = decisions.split("| read | weight of a peer's vote |")[1].partition("\n\n")[0]
    names = [row.partition(" (")[0] for row in re.findall(r"^\| (`[^|]*) \|", listed, re.MULTILINE)]
    assert {name for row in names for name in re.findall(r"`([a-z-]+)`", row)} == set(READS.votes)


@pytest.mark.parametrize("page", sorted(ROOT.glob("*.md")), ids=lambda page: page.name)
def test_every_link_of_a_front_page_leads_somewhere(page: Path) -> None:
    """Those of docs/ are checked when the site is built."""
    for target, anchor in re.findall(
        r"(?:\]\(|srcset=\"|src=\")(?!https?:)([^)\"#]*)(?:#([^)\"]*))?[)\"]", page.read_text("utf-8")
    ):
        file = page.parent / target if target else page
        assert file.exists(), target
        if anchor:
            titles = re.findall(r"^#+ (.*)$", file.read_text("utf-8"), re.MULTILINE)
            slugs = {re.sub(r"[^\w\- ]", "", title).lower().replace(" ", "-") for title in titles}
            assert anchor in slugs, f"{target}#{anchor}"
