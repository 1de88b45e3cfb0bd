"""Every example in a docstring runs, in every module whose optional dependencies are installed."""

import doctest
import importlib
from pathlib import Path

import pytest

import sigma_lab
import sigma_mem
from sigma_mem.errors import MissingExtraError

PACKAGES = [Path(package.__file__).parent for package in (sigma_mem, sigma_lab)]


def module_names():
    """Found by file: nothing is imported before its own test."""
    for file in [file for package in PACKAGES for file in sorted(package.rglob("*.py"))]:
        package = next(package for package in PACKAGES if package in file.parents)
        parts = file.relative_to(package.parent).with_suffix("").parts
        if parts[-1] != "__main__":  # importing that starts the command line
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = list(module_names())


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name):
    try:
        module = importlib.import_module(name)
    except MissingExtraError as error:
        pytest.skip(str(error))
    except ModuleNotFoundError as error:
        if (error.name or "").startswith(("sigma_mem", "sigma_lab")):
            raise
        pytest.skip(f"{error.name} is not installed")
    result = doctest.testmod(module, optionflags=doctest.ELLIPSIS)
    assert result.failed == 0, f"{result.failed} of {result.attempted} examples of {name} fail (see above)"


def test_the_core_has_examples():
    """So that the test above cannot pass by finding nothing."""
    found = {
        name: sum(len(t.examples) for t in doctest.DocTestFinder().find(importlib.import_module(name)))
        for name in MODULES
        if name.startswith(("sigma_mem.memory.", "sigma_mem.decide."))
    }
    assert len(found) >= 12
    assert sum(found.values()) >= 50
