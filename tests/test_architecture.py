"""The page on architecture says of every package what the import contracts and the imports say."""

import ast
import re
import sys
import tomllib
from itertools import chain
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "sigma_mem"
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^### `(\w+)`\n\n(.*?)(?=^###? |\Z)", PAGE, re.MULTILINE | re.DOTALL))


def contracts():
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]


def layers():
    (contract,) = (c for c in contracts() if c["type"] == "layers")
    return [[name.strip() for name in layer.split("|")] for layer in contract["layers"]]


def packages():
    """Every package and top-level module, by name; the package's own two files are none."""
    folders = {folder.parent.name for folder in SOURCE.glob("*/__init__.py")}
    return (folders | {file.stem for file in SOURCE.glob("*.py")}) - {"__init__", "__main__"}


def libraries(package):
    """Top-level names of what a package imports from outside, also where it is imported late."""
    files = [*(SOURCE / package).rglob("*.py")] if (SOURCE / package).is_dir() else [SOURCE / f"{package}.py"]
    nodes = chain.from_iterable(ast.walk(ast.parse(file.read_text(encoding="utf-8"))) for file in files)
    names = {name.partition(".")[0] for node in nodes for name in imported(node)}
    return names - set(sys.stdlib_module_names) - {"sigma_mem"}


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


def test_the_page_has_the_layers_of_the_import_contract():
    (block,) = re.findall(r"^## Layers$.*?^```text\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert [[name.strip() for name in line.split("|")] for line in block.splitlines()] == layers()


def test_every_package_is_in_a_layer_and_on_the_page():
    in_layers = list(chain.from_iterable(layers()))
    assert sorted(in_layers) == sorted(packages())
    assert list(SECTIONS) == in_layers  # in the same order, from the top down


def test_the_page_names_the_libraries_that_a_package_imports():
    written = {name: re.search(r"^Outside: (.*)\.$", text, re.MULTILINE) for name, text in SECTIONS.items()}
    assert {name: set(re.findall(r"`(\w+)`", found[1])) for name, found in written.items()} == {
        name: libraries(name) for name in packages()
    }


def test_torch_is_where_the_page_says():
    (contract,) = (c for c in contracts() if "torch" in c.get("forbidden_modules", []))
    without = {module.removeprefix("sigma_mem.") for module in contract["source_modules"]}
    with_torch = {name for name in packages() if "torch" in libraries(name)}
    assert with_torch == {"bench", "center", "train"}  # bench times a rival's encoder
    assert not with_torch & without


def test_the_picture_names_only_packages_and_modules_that_exist():
    picture = (ROOT / "docs" / "architecture.svg").read_text(encoding="utf-8")
    named = re.findall(r">(\w+)/(\w*)<", picture)
    assert len(named) >= 7
    assert [name for name, part in named if not (SOURCE / name / f"{part or '__init__'}.py").is_file()] == []
