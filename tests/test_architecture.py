"""The page on architecture says of every package what the import contracts and the imports say."""

import ast
import re
import sys
import tomllib
from itertools import chain
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
PRODUCT, LABORATORY = PAGE.split("\n## Laboratory\n")
SOURCES = {"sigma_mem": ROOT / "src" / "sigma_mem", "sigma_lab": ROOT / "lab" / "src" / "sigma_lab"}
TEXTS = {"sigma_mem": PRODUCT, "sigma_lab": LABORATORY}
both = pytest.mark.parametrize("root", SOURCES)


def contracts():
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]


def layers(root):
    (contract,) = (c for c in contracts() if c.get("containers") == [root])
    return [[name.strip() for name in layer.split("|")] for layer in contract["layers"]]


def sections(root):
    return dict(re.findall(r"^### `(\w+)`\n\n(.*?)(?=^###? |\Z)", TEXTS[root], re.MULTILINE | re.DOTALL))


def packages(root):
    """Every package and top-level module, by name; the package's own two files are none."""
    folders = {folder.parent.name for folder in SOURCES[root].glob("*/__init__.py")}
    return (folders | {file.stem for file in SOURCES[root].glob("*.py")}) - {"__init__", "__main__"}


def libraries(root, package):
    """Top-level names of what a package imports from outside, also where it is imported late."""
    folder = SOURCES[root] / package
    files = [*folder.rglob("*.py")] if folder.is_dir() else [folder.with_suffix(".py")]
    nodes = chain.from_iterable(ast.walk(ast.parse(file.read_text(encoding="utf-8"))) for file in files)
    names = {name.partition(".")[0] for node in nodes for name in imported(node)}
    return names - set(sys.stdlib_module_names) - {"compression"} - set(SOURCES)  # new in Python 3.14


def imported(node):
    match node:
        case ast.Import(names=names):
            return [alias.name for alias in names]
        case ast.ImportFrom(module=str(module), level=0):
            return [module]
        case ast.Call(
            func=ast.Name(id="require" | "import_module"), args=[ast.Constant(value=str(name)), *_]
        ):
            return [name]
    return []


@both
def test_the_page_has_the_layers_of_the_import_contract(root):
    (block,) = re.findall(r"^```text\n(.*?)^```", TEXTS[root], re.MULTILINE | re.DOTALL)
    assert [[name.strip() for name in line.split("|")] for line in block.splitlines()] == layers(root)


@both
def test_every_package_is_in_a_layer_and_on_the_page(root):
    in_layers = list(chain.from_iterable(layers(root)))
    assert sorted(in_layers) == sorted(packages(root))
    assert list(sections(root)) == in_layers  # in the same order, from the top down


@both
def test_the_page_names_the_libraries_that_a_package_imports(root):
    written = {
        name: re.search(r"^Outside: (.*)\.$", text, re.MULTILINE) for name, text in sections(root).items()
    }
    assert {name: set(re.findall(r"`(\w+)`", found[1])) for name, found in written.items()} == {
        name: libraries(root, name) for name in packages(root)
    }


def test_the_laboratory_is_above_the_product():
    assert {"layers": ["sigma_lab", "sigma_mem"]}.items() <= contracts()[1].items()


def test_torch_is_where_the_page_says():
    (contract,) = (c for c in contracts() if "torch" in c.get("forbidden_modules", []))
    without = {module.removeprefix("sigma_mem.") for module in contract["source_modules"]}
    with_torch = {name for name in packages("sigma_mem") if "torch" in libraries("sigma_mem", name)}
    assert with_torch == {"center"}
    assert not with_torch & without


def test_the_picture_names_only_packages_and_modules_that_exist():
    picture = (ROOT / "docs" / "architecture.svg").read_text(encoding="utf-8")
    named = re.findall(r">(\w+)/(\w*)<", picture)
    assert len(named) >= 7
    product = SOURCES["sigma_mem"]
    assert [name for name, part in named if not (product / name / f"{part or '__init__'}.py").is_file()] == []
