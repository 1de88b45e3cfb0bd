"""The site: every page is reached, links hold, public names have entries, no other host is needed."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import sigma_mem
from sigma_mem import AsyncClient, AsyncSigmaMem, Client, Decision, Settings, SigmaMem, errors, session
from sigma_mem.session.panel import Panel

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
FETCHED = re.compile(
    r"""<(?:script|img|iframe)\b[^>]*\bsrc=["']?(?:https?:)?//|<link\b[^>]*\bhref=["']?(?:https?:)?//"""
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as `make docs` builds it."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return folder


def test_every_page_is_in_the_navigation_once() -> None:
    listed = re.findall(
        r"^ +- (?:[^:\n]+: )?([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text("utf-8"), re.MULTILINE
    )
    assert sorted(listed) == sorted(page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md"))


def test_every_public_name_has_an_entry(site: Path) -> None:
    entries = {
        name
        for page in (site / "reference").glob("*.html")
        for name in re.findall(r'id="(sigma_mem[\w.]*)"', page.read_text("utf-8"))
    }
    wanted = {f"sigma_mem.{name}" for name in sigma_mem.__all__}
    wanted |= {f"sigma_mem.session.{name}" for name in session.__all__ if name not in sigma_mem.__all__}
    wanted |= {f"sigma_mem.errors.{name}" for name in vars(errors) if name.endswith("Error")} - {
        "sigma_mem.errors.SigmaMemError"
    }
    for kind in (SigmaMem, Settings, Decision):
        wanted |= {
            f"sigma_mem.{kind.__name__}.{name}"
            for name, member in vars(kind).items()
            if not name.startswith("_") and (callable(member) or isinstance(member, (property, classmethod)))
        }
    wanted |= {"sigma_mem.session.panel.Panel"} | {
        f"sigma_mem.session.panel.Panel.{name}"
        for name, member in vars(Panel).items()
        if not name.startswith("_") and callable(member)
    }
    assert wanted <= entries, sorted(wanted - entries)


@pytest.mark.parametrize(
    ("page", "kind"), [("asynchronous", AsyncSigmaMem), ("client", Client), ("client", AsyncClient)]
)
def test_wrapped_methods_are_listed_with_what_they_do(site: Path, page: str, kind: type) -> None:
    text = (site / "reference" / f"{page}.html").read_text("utf-8")
    for name in (name for name in dir(kind) if not name.startswith("_")):
        row = re.search(rf"<td>(?:<[^>]+>)*{name}(?:<[^>]+>)*</td>\s*<td>(.+?)</td>", text)
        assert row is not None, name


def test_nothing_is_fetched_from_another_host(site: Path) -> None:
    for page in site.rglob("*.html"):
        assert FETCHED.search(page.read_text("utf-8")) is None, page.name


def drawing() -> ModuleType:
    """`docs/hooks/draw.py`, which is no part of the package."""
    spec = importlib.util.spec_from_file_location("draw", DOCS / "hooks" / "draw.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_pictures_are_those_that_the_script_draws_and_each_is_shown() -> None:
    draw = drawing()
    text = (DOCS / "pictures.md").read_text("utf-8")
    assert {path.stem for path in draw.FOLDER.glob("*.svg")} == set(draw.PICTURES)
    for name, picture in draw.PICTURES.items():
        assert f"(pictures/{name}.svg)" in text
        assert (draw.FOLDER / f"{name}.svg").read_text("utf-8") == picture(), (
            f"run docs/hooks/draw.py: {name}"
        )
