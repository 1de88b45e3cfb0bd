"""The site: every page is reached, links hold, public names have entries, no other host is needed."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import sigma_mem
from sigma_mem import AsyncClient, AsyncSigmaMem, Client, Decision, Settings, SigmaMem, errors, session
from sigma_mem.session.panel import Panel

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
FETCHED = re.compile(
    r"""<(?:script|img|iframe)\b[^>]*\bsrc=["']?(?:https?:)?//|<link\b[^>]*\bhref=["']?(?:https?:)?//"""
)


def test_every_page_is_in_the_navigation_once() -> None:
    listed = re.findall(
        r"^ +- (?:[^:\n]+: )?([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text("utf-8"), re.MULTILINE
    )
    assert sorted(listed) == sorted(page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md"))


def public_names() -> set[str]:
    """What must have an entry of its own in the reference."""
    names = {f"sigma_mem.{name}" for name in sigma_mem.__all__}
    names |= {f"sigma_mem.session.{name}" for name in session.__all__ if name not in sigma_mem.__all__}
    names |= {f"sigma_mem.errors.{name}" for name in vars(errors) if name.endswith("Error")}
    names -= {"sigma_mem.errors.SigmaMemError"}  # it is sigma_mem.SigmaMemError
    panel = "sigma_mem.session.panel.Panel"
    for kind, path in (
        (SigmaMem, "sigma_mem.SigmaMem"),
        (Settings, "sigma_mem.Settings"),
        (Decision, "sigma_mem.Decision"),
        (Panel, panel),
    ):
        names |= {
            f"{path}.{name}"
            for name in dir(kind)
            if not name.startswith("_")
            and (callable(member := getattr(kind, name)) or isinstance(member, property))
        }
    return names | {panel}


def missing_rows(page: str, kind: type) -> list[str]:
    """Methods of a class that wraps another, without a row that says what they do."""
    names = [name for name in dir(kind) if not name.startswith("_")]
    row = r"<td>(?:<[^>]+>)*{}(?:<[^>]+>)*</td>\s*<td>(.+?)</td>"
    return [name for name in names if re.search(row.format(name), page) is None]


def test_the_site_is_built_and_has_every_public_name_and_needs_no_other_host(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr  # a link that leads nowhere is an error
    reference = {page.stem: page.read_text("utf-8") for page in (tmp_path / "reference").glob("*.html")}
    entries = set(re.findall(r'id="(sigma_mem[\w.]*)"', "".join(reference.values())))
    assert public_names() <= entries, sorted(public_names() - entries)
    for kind in (AsyncSigmaMem, Client, AsyncClient):
        assert missing_rows(reference["python"], kind) == []
    pages = {page.name: page.read_text("utf-8") for page in tmp_path.rglob("*.html")}
    assert [name for name, text in pages.items() if FETCHED.search(text)] == []


def hook(name: str) -> ModuleType:
    """A script of `docs/hooks`, which is no part of the package."""
    spec = importlib.util.spec_from_file_location(name, DOCS / "hooks" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_pictures_are_those_that_the_script_draws_and_each_is_shown() -> None:
    draw = hook("draw")
    text = (DOCS / "memory.md").read_text("utf-8")
    assert {path.stem for path in draw.FOLDER.glob("*.svg")} == set(draw.PICTURES)
    for name, picture in draw.PICTURES.items():
        assert f"(pictures/{name}.svg)" in text
        assert (draw.FOLDER / f"{name}.svg").read_text("utf-8") == picture(), (
            f"run docs/hooks/draw.py: {name}"
        )


def test_no_page_but_the_reference_is_long() -> None:
    pages = [ROOT / "README.md", *(page for page in DOCS.rglob("*.md") if page.parent.name != "reference")]
    words = {page.name: len(page.read_text("utf-8").split()) for page in pages}
    assert {name: count for name, count in words.items() if count > 2000} == {}


def test_the_page_of_the_demo_has_its_run_and_asks_nobody(tmp_path: Path) -> None:
    made = {file.name: file.read_text("utf-8") for file in hook("demo").write(tmp_path, tasks=60)}
    assert set(made) == {"demo-light.svg", "demo-dark.svg", "demo.html"}
    for name, text in [*made.items(), *((name, (DOCS / name).read_text("utf-8")) for name in made)]:
        addresses = set(re.findall(r"[a-z]+://[^\"' >]+", text))
        assert addresses <= {"http://www.w3.org/2000/svg"}, name
        assert not FETCHED.search(text)
    run = json.loads(re.search(r"^const run = (\{.*\});$", made["demo.html"], re.MULTILINE)[1])  # type: ignore[index]
    assert run["tasks"][-1] == 60
    assert len(run["trust"][-1]) == len(run["peers"]) == 6
    assert all(len(shares) == len(run["tasks"]) for shares in run["right"].values())
