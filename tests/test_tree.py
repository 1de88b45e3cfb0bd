"""Facts about the source as a whole: one name is one thing, and some things are done in one place only."""

import ast
import re
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TREES = {
    str(file.relative_to(source)): ast.parse(file.read_text(encoding="utf-8"))
    for source in (ROOT / "src", ROOT / "lab" / "src")
    for file in sorted(source.rglob("*.py"))
}


def places(found):
    """The modules in which `found` holds for some node."""
    return {module for module, tree in TREES.items() if any(found(node) for node in ast.walk(tree))}


def called(node):
    """The last name of what a call calls."""
    if not isinstance(node, ast.Call):
        return None
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", None)


# A function of a command or of an administrator has the command's name.
NAMED_ALIKE = ("sigma_mem/cli/", "sigma_mem/admin/", "sigma_lab/cli/")


@pytest.mark.parametrize(
    "kinds", [(ast.ClassDef,), (ast.FunctionDef, ast.AsyncFunctionDef)], ids=["class", "function"]
)
def test_a_name_is_defined_once(kinds):
    """Classes, and public functions of modules; a method may have the name of another class's method."""
    modules = defaultdict(set)
    for module, tree in TREES.items():
        for node in tree.body:
            alike = isinstance(node, ast.FunctionDef) and module.startswith(NAMED_ALIKE)
            if isinstance(node, kinds) and not alike and not node.name.startswith("_"):
                modules[node.name].add(module)
    modules.pop("main", None)  # where a program starts
    assert len(modules) > 50
    assert {name: sorted(where) for name, where in modules.items() if len(where) > 1} == {}


def test_a_failed_import_of_an_extra_is_reported_in_one_place():
    """The others lack a data file, not an import, and an argument that only an extra can make."""

    def raises(node):
        return isinstance(node, ast.Raise) and called(node.exc) == "MissingExtraError"

    assert places(raises) == {
        "sigma_mem/extras.py",
        "sigma_mem/encode/minilm.py",
        "sigma_lab/encode/wordllama.py",
        "sigma_mem/session/judgement.py",
    }


NOUNS = {"reading", "spending"}  # words in -ing that name a thing
ENTRY_POINT = {"importing"}  # of `sigma-mem import`, in the metadata of installed laboratories


def test_a_file_is_named_by_a_noun():
    stems = {Path(module).stem for module in TREES}
    assert {stem for stem in stems if stem.endswith("ing")} == NOUNS | ENTRY_POINT


def test_files_are_replaced_in_one_place():
    """`Path.replace` takes one argument, `str.replace` two; `Path.rename` moves whole folders."""

    def replaces(node):
        if called(node) != "replace" or not isinstance(node.func, ast.Attribute):
            return False
        by_os = isinstance(node.func.value, ast.Name) and node.func.value.id == "os"
        return by_os or (len(node.args) == 1 and not node.keywords)

    assert places(replaces) == {"sigma_mem/files.py"}


def test_no_pattern_repeats_a_group_possessively():
    """Python below 3.11.5 matches (?:…)*+ wrongly; a single character may be repeated so."""
    texts = {
        (module, node.value)
        for module, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    possessive = re.compile(r"(?<!\\)\)(?:[*+?]|\{\d*,?\d*\})\+")
    assert [pair for pair in texts if possessive.search(pair[1])] == []
