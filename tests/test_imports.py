"""Importing the package stays light, and imports point down only."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

HEAVY = [
    "torch", "transformers", "sentence_transformers", "wordllama", "matplotlib", "scipy", "sklearn", "pandas",
    "fastapi", "starlette", "flask", "django", "aiohttp", "uvicorn", "http.server", "pydantic",
    "asyncio", "sqlite3", "typer", "rich",
]  # fmt: skip


def loaded_after(statement):
    code = f"import sys; {statement}; print('\\n'.join(sys.modules))"
    plain = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
    return set(subprocess.check_output([sys.executable, "-c", code], env=plain, text=True).split())


def test_importing_the_package_pulls_neither_torch_nor_a_web_framework():
    loaded = loaded_after("import sigma_mem")
    assert "sigma_mem.memory" in loaded
    assert not loaded.intersection(HEAVY)


@pytest.mark.parametrize("module", ["sigma_mem.memory", "sigma_mem.decide"])
def test_the_core_needs_numpy_only(module):
    loaded = loaded_after(f"import {module}")
    outside = {name.partition(".")[0] for name in loaded if not name.startswith("_")}
    third_party = outside - set(sys.stdlib_module_names) - {"numpy", "sigma_mem"}
    assert third_party - loaded_top_level("pass") == set()  # less what Python itself starts with


def loaded_top_level(statement):
    return {name.partition(".")[0] for name in loaded_after(statement)}


def test_imports_point_down_only():
    """The contracts of pyproject.toml, which have no exceptions."""
    pytest.importorskip("importlinter", reason="import-linter is not installed: pip install 'sigma-mem[dev]'")
    lint = "from importlinter.cli import lint_imports_command; lint_imports_command(['--no-cache'])"
    command = [sys.executable, "-c", lint]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "KEPT" in result.stdout
    assert "ignore_imports" not in (ROOT / "pyproject.toml").read_text()


def test_dir_lists_what_is_imported_when_first_asked_for():
    import sigma_mem

    assert set(sigma_mem.__all__) <= set(dir(sigma_mem))
    assert all(hasattr(sigma_mem, name) for name in sigma_mem.__all__)
