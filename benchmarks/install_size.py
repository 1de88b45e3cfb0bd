"""What ``pip install sigma-mem`` takes: size by package, what each extra adds, and the time of an import.

``python benchmarks/install_size.py [EXTRA ...]`` installs this checkout into an empty folder, then each extra
into one of its own; without arguments every extra but ``dev`` (``center`` and ``sentence`` bring torch).
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping
from importlib.metadata import distributions
from pathlib import Path

ROOT = Path(__file__).parents[1]
_MB = 1e6
_MOST_MB, _MOST_SECONDS = 150, 0.4  # bounds of `pip install sigma-mem` and of its import


def install(folder: Path, extra: str | None = None) -> dict[str, int]:
    """Install into an empty folder; return bytes by distribution, compiled Python files included."""
    wanted = str(ROOT) if extra is None else f"{ROOT}[{extra}]"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wanted]
    command += ["--target", str(folder), "--constraint", str(ROOT / "constraints.txt")]
    subprocess.run(command, check=True, capture_output=True)
    return {
        found.name: sum(size_of(Path(str(found.locate_file(file)))) for file in found.files or ())
        for found in distributions(path=[str(folder)])
    }


def size_of(file: Path) -> int:
    """Bytes of a file; of one that pip put elsewhere (a script), 0."""
    return file.stat().st_size if file.is_file() else 0


def seconds_of(statement: str, folder: Path, times: int = 9) -> float:
    """Median processor time of a fresh Python that runs a statement."""
    code = f"import time\nbegin = time.process_time()\n{statement}\nprint(time.process_time() - begin)"
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    runs = [
        subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
        )
        for _ in range(times)
    ]
    return statistics.median(float(run.stdout) for run in runs)


def print_sizes(title: str, sizes: Mapping[str, int]) -> None:
    """One line of the sum, then the packages of a megabyte or more."""
    print(f"{title}: {sum(sizes.values()) / _MB:.0f} MB in {len(sizes)} packages")
    small = [name for name, size in sizes.items() if size < _MB]
    for name, size in sorted(sizes.items(), key=lambda item: -item[1]):
        if name not in small:
            print(f"  {size / _MB:6.1f} MB  {name}")
    if small:
        print(f"  {sum(sizes[name] for name in small) / _MB:6.1f} MB  {', '.join(sorted(small))}")


def main() -> None:
    """Install and print."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = sys.argv[1:] or [name for name in project["optional-dependencies"] if name != "dev"]
    with tempfile.TemporaryDirectory(prefix="install-size-") as scratch:
        default = install(Path(scratch, "default"))
        print_sizes(f"sigma-mem (bound {_MOST_MB} MB)", default)
        for statement in ("import sigma_mem", "from sigma_mem import SigmaMem"):
            spent = seconds_of(statement, Path(scratch, "default"))
            print(f"{statement}: {spent:.2f} s of processor time (bound {_MOST_SECONDS} s)")
        for extra in extras:
            found = install(Path(scratch, extra), extra)
            print_sizes(f"[{extra}] adds", {name: found[name] for name in found if name not in default})


if __name__ == "__main__":
    main()
