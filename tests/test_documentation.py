"""The README and the documentation are run: every Python block, in order, in a fresh folder."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.main import get_group

from sigma_mem.cli.app import build_app
from sigma_mem.decide import READS

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"(?:`|^)sigma-mem ([a-z]+)", re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_code_of_a_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = BLOCK.findall(page.read_text(encoding="utf-8"))
    monkeypatch.chdir(tmp_path)
    scope: dict[str, object] = {"__name__": "__main__"}
    for number, block in enumerate(blocks):
        exec(compile(block, f"{page.name}, block {number + 1}", "exec"), scope)
    if page.name == "README.md":
        assert blocks


def test_the_readme_starts_with_the_two_commands() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    first = re.search(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert first is not None
    assert [line.split("#")[0].strip() for line in first.group(1).splitlines()] == ["make run", "make test"]


def test_every_command_that_a_page_names_is_there() -> None:
    known = get_group(build_app()).list_commands(None)
    for page in PAGES:
        for name in COMMAND.findall(page.read_text(encoding="utf-8")):
            assert name in known, f"{page.name}: sigma-mem {name}"


def test_every_read_is_explained_and_no_other() -> None:
    decisions = (ROOT / "docs" / "decisions.md").read_text(encoding="utf-8")
    benchmarks = (ROOT / "docs" / "lab" / "benchmarks.md").read_text(encoding="utf-8")
    for read in READS:
        assert f"`{read.name}`" in decisions or f"mem.{read.name}(" in decisions, read.name
    for read in READS.in_tables():
        assert f"`{read.name}`" in benchmarks, read.name
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
