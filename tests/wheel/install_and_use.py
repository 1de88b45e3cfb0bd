"""Build both wheels and use them as a stranger would, in an empty environment outside the checkout.

First the product alone, then the laboratory with it.

Run it with any Python 3.11: ``python tests/wheel/install_and_use.py``. It needs nothing but pip.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[2]
PARTS = ("src", "pyproject.toml", "README.md")
LABORATORY = ("bench", "data", "import", "paper", "train")
PIP = ("-m", "pip", "--disable-pip-version-check", "--quiet")


@contextmanager
def step(name: str) -> Iterator[None]:
    started = time.monotonic()
    yield
    print(f"{name}: done in {time.monotonic() - started:.1f} s", flush=True)


def run(*command: str | Path, cwd: Path, code: int = 0, **environment: str) -> str:
    """Run a command without this process's Python settings; stop with its output if it ends otherwise.

    Returns what it wrote to standard output, or to standard error if it is expected to fail.
    """
    clean = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))
    }
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**clean, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    if done.returncode != code:
        line = " ".join(str(part) for part in command)
        sys.exit(f"{line[:200]}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stderr if code else done.stdout


def expect(holds: bool, what: str) -> None:
    if not holds:
        sys.exit(f"the installed wheel is not as expected: {what}")


def build(project: Path, folder: Path, python: Path) -> Path:
    """Build from a copy: a ``build/`` of the checkout may hold modules that are gone from the source."""
    source, wheels = folder / "source", folder / "wheels"
    source.mkdir(parents=True)
    for part in PARTS:
        if (project / part).is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
            shutil.copytree(project / part, source / part, ignore=ignored)
        else:
            shutil.copy(project / part, source / part)
    shutil.copy(ROOT / "LICENSE", source / "LICENSE")
    run(python, *PIP, "wheel", "--no-deps", "--wheel-dir", wheels, source, cwd=folder)
    return next(wheels.glob("*.whl"))


def tiny_stream(file: Path) -> None:
    """Sixty sums that ann always gets right, bob never and cyd half of the time."""
    lines = []
    for i in range(60):
        answers = {"ann": str(2 * i), "bob": str(2 * i + 1), "cyd": str(2 * i + i % 2 * 3)}
        event = {
            "id": f"sum-{i}",
            "dataset": "sums",
            "domain": "even" if i % 2 == 0 else "odd",
            "question": f"What is {i} + {i}?",
            "reference": str(2 * i),
            "answers": {peer: {"text": text, "canon": text} for peer, text in answers.items()},
            "correct": {peer: text == str(2 * i) for peer, text in answers.items()},
        }
        lines.append(json.dumps(event))
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")


def page_code(page: str) -> str:
    """The Python blocks of a page, in order."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return "\n".join(re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL))


def documented_commands() -> list[list[str]]:
    """Every command that a page names, such as ``["bench", "cf"]``."""
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    named = re.findall(r"^\| `sigma-mem (\w+)` \|", text, re.MULTILINE)
    grouped = re.findall(r"sigma-mem ((?:bench|train|center) [a-z-]+)", text)
    return [command.split() for command in sorted({*named, *grouped})]


SHOW_HELP = """
import json, sys
from sigma_mem.cli import main
for command in json.loads(sys.argv[1]):
    sys.argv[1:] = [*command, "--help"]
    try:
        main()
    except SystemExit as end:
        if end.code:
            sys.exit(f"sigma-mem {' '.join(command)} --help: exit code {end.code}")
"""


LIST_PAGE = """
import json
from importlib.resources import files
page = files("sigma_mem") / "serve" / "dashboard" / "static"
print(json.dumps(sorted(file.name for file in page.iterdir())))
"""


def check_help(home: Path, python: Path, commands: list[list[str]]) -> None:
    """Every one of these commands is listed, and has a help of its own."""
    top = run(python.with_name("sigma-mem"), "--help", cwd=home, HOME=str(home))
    for name in {command[0] for command in commands}:
        expect(name in top, f"sigma-mem --help does not name {name}")
    shown = run(python, "-c", SHOW_HELP, json.dumps(commands), cwd=home, HOME=str(home))
    expect(shown.count("Usage: ") == len(commands), f"{len(commands)} commands are documented, got {shown}")


def use(home: Path, python: Path) -> None:
    """The product alone."""
    program = python.with_name("sigma-mem")

    def call(*command: str | Path) -> str:
        return run(*command, cwd=home, HOME=str(home))

    with step("import"):
        where = call(python, "-c", "import sigma_mem; print(sigma_mem.__file__)")
        expect(where.startswith(str(python.parents[1])), f"sigma_mem was imported from {where.strip()}")
    with step("dashboard"):
        files = json.loads(call(python, "-c", LIST_PAGE))
        source = ROOT / "src" / "sigma_mem" / "serve" / "dashboard" / "static"
        expect(
            files == sorted(file.name for file in source.iterdir()), f"the dashboard has the files {files}"
        )
    with step("README"):
        code = page_code("README.md")
        expect("SigmaMem(" in code, "README.md has no Python block that makes a memory")
        printed = call(python, "-W", "error", "-c", code)
        expect("391" in printed, f"the README's lines printed {printed!r}, without the answer 391")
        expect((home / "memory.db").is_file(), "the README's lines left no memory.db")
    with step("tutorial"):
        printed = call(python, "-W", "error", "-c", page_code("docs/tutorial.md"))
        expect("the last 20:" in printed, f"the tutorial printed {printed!r}, without how the last 20 went")
        shown = call(program, "inspect", "--memory", "router.db")
        expect("calculator" in shown, f"sigma-mem inspect shows {shown!r} of the tutorial's memory")
    with step("help"):
        check_help(home, python, [c for c in documented_commands() if c[0] not in LABORATORY])
    with step("demo"):
        lines = call(program, "demo", "--tasks", "300").splitlines()
        expect(len(lines) > 10, f"sigma-mem demo printed {len(lines)} lines in a pipe")
    with step("without the laboratory"):
        for name in LABORATORY:
            said = run(program, name, cwd=home, code=2, HOME=str(home))
            named = said.count("\n") == 1 and "pip install sigma-lab" in said
            expect(named, f"sigma-mem {name} does not say in one line what to install: {said!r}")


def use_laboratory(home: Path, python: Path) -> None:
    """The laboratory's commands, next to the product's."""
    program = python.with_name("sigma-mem")

    def call(*command: str | Path) -> str:
        return run(*command, cwd=home, HOME=str(home))

    with step("help with the laboratory"):
        commands = documented_commands()
        expect(["bench", "cf"] in commands, "the documentation does not name sigma-mem bench cf")
        check_help(home, python, commands)
    with step("bench cf"):
        tiny_stream(home / "sums.jsonl")
        table = json.loads(call(program, "bench", "cf", "sums.jsonl", "--ratios", "0,0.5", "--json"))
        expect("adaptive" in json.dumps(table), "sigma-mem bench cf has no row named adaptive")


def main() -> None:
    with TemporaryDirectory(prefix="sigma-mem-wheel-") as temporary:
        folder = Path(temporary).resolve()
        python = folder / "environment" / "bin" / "python"
        with step("environment"):
            run(sys.executable, "-m", "venv", folder / "environment", cwd=folder)
        home = folder / "home"  # empty, and so is the folder in which everything runs
        home.mkdir()
        for name, project, used in (("sigma-mem", ROOT, use), ("sigma-lab", ROOT / "lab", use_laboratory)):
            with step(f"wheel of {name}"):
                wheel = build(project, folder / name, python)
            with step(f"install {wheel.name}"):
                run(python, *PIP, "install", "--constraint", ROOT / "constraints.txt", wheel, cwd=folder)
            used(home, python)
    print("the wheels work outside the checkout")


if __name__ == "__main__":
    main()
