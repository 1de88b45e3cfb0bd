"""Test every adapter and recipe with the current version of its framework, in an environment of its own.

Run it with any Python 3.11: ``python tests/integrations/each_alone.py [NAME …]``. It installs uv by pip
for the environments in ``build/integrations``, which are kept until ``pyproject.toml`` changes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "build" / "integrations"
LIMIT = 15 * 60  # seconds for all
ADAPTERS = sorted(
    file.stem.removeprefix("test_")
    for file in Path(__file__).parent.glob("test_*.py")
    if file.name != "test_chooser.py"
)
RECIPES = sorted(
    file.stem.removeprefix("recipe_") for file in (ROOT / "examples" / "integrations").glob("recipe_*.py")
)
OURS = "filterwarnings=error:::sigma_mem"  # warnings of ours fail; those of frameworks are theirs
PYTEST = ["-q", "-c", os.devnull, "--noconftest", "--rootdir", "tests/integrations", "-o", OURS]
PYTEST += ["-p", "no:cacheprovider", "--timeout", "450"]
QUIET = {  # no test needs more than its packages, and each is alone enough to be timed
    "CREWAI_DISABLE_TELEMETRY": "true",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "OTEL_SDK_DISABLED": "true",
    "SIGMA_MEM_OVERHEAD": "1",
}
WORKERS = 4  # at a time: half of the work is waiting for packages


class Runner:
    """Runs commands at the root of the project until the time is up, without this process's settings."""

    def __init__(self) -> None:
        self.started = time.monotonic()
        ours = ("PYTHON", "VIRTUAL_ENV")
        self._environment = {key: each for key, each in os.environ.items() if not key.startswith(ours)}

    def __call__(self, *command: str | Path, **environment: str) -> str:
        """What a command writes; SubprocessError if it fails or takes too long."""
        return subprocess.run(
            command,
            cwd=ROOT,
            env={**self._environment, **environment},
            check=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=max(1.0, LIMIT - self.seconds()),
        ).stdout

    def seconds(self) -> float:
        """Since the start."""
        return time.monotonic() - self.started


def installer(run: Runner) -> Path:
    """The program uv."""
    folder = FOLDER / "uv"
    if not (folder / "bin" / "uv").is_file():
        run(sys.executable, "-m", "venv", folder)
        run(folder / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "--quiet", "install", "uv")
    return folder / "bin" / "uv"


def environment(run: Runner, uv: Path, name: str) -> Path:
    """The Python of an environment with a framework."""
    folder, project = FOLDER / name, (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    python, made = folder / "bin" / "python", folder / "made-of.toml"
    if not made.is_file() or made.read_text(encoding="utf-8") != project:
        run(uv, "--native-tls", "venv", "--quiet", "--clear", "--python", sys.executable, folder)
        pip = (uv, "--native-tls", "pip", "install", "--quiet", "--python", python)
        run(*pip, *needed(name), "pytest", "pytest-timeout")
        made.write_text(project, encoding="utf-8")
    return python


def needed(name: str) -> list[str | Path]:
    """What an adapter's tests or a recipe need."""
    package = name.replace("_", "-")
    if name in RECIPES:
        return ["--editable", ROOT, package]
    if name == "litellm":  # its proxy is tested, too, with a service
        return ["--editable", f"{ROOT}[litellm,serve]", "litellm[proxy]"]
    return ["--editable", f"{ROOT}[{package}]"]


def passes(run: Runner, uv: Path, name: str) -> bool:
    """Test an adapter or a recipe, and report."""
    what = ["recipes.py", "-k", name] if name in RECIPES else [f"test_{name}.py"]
    what[0] = f"tests/integrations/{what[0]}"
    try:
        python = environment(run, uv, name)
        said = run(python, "-m", "pytest", *PYTEST, *what, PYTHONPATH=str(ROOT / "tests"), **QUIET)
        outcome = "passed"
    except subprocess.SubprocessError as error:
        said, outcome = f"{getattr(error, 'stdout', None) or ''}\n{error}", "failed"
    print(f"{said.strip()}\n{name}: {outcome}, {run.seconds():.0f} s after the start\n", flush=True)
    return outcome == "passed"


def main(names: list[str]) -> int:
    """Test these adapters and recipes, or all; the exit code is 1 if one fails or is not done in time."""
    run = Runner()
    longest = "litellm"
    names = names or [longest, *(name for name in (*ADAPTERS, *RECIPES) if name != longest)]
    uv = installer(run)
    with ThreadPoolExecutor(WORKERS) as workers:
        passed = sum(workers.map(lambda name: passes(run, uv, name), names))
    print(f"{passed} of {len(names)} passed in {run.seconds():.0f} s")
    return 0 if passed == len(names) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
