"""Write deploy/requirements.txt: every package of the image with its hash, for --require-hashes.

    python deploy/lock.py

Run it with the image's Python (3.11) on Linux x86_64 after constraints.txt or a dependency changed. The
hashes are those that pip reports of the wheels it would install; no other file is accepted afterwards.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
WANTED = (f"{ROOT}[mcp,postgres,serve]", "setuptools>=77")  # setuptools builds the package itself
TITLE = "# Made by `python deploy/lock.py`: CPython 3.11 on Linux x86_64, the platform of the image.\n"


def main() -> None:
    """Ask pip what it would install, and write it down."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        options = ("--dry-run", "--ignore-installed", "--quiet", "--only-binary", ":all:", "--report", report)
        pip = (sys.executable, "-m", "pip", "install", "--constraint", ROOT / "constraints.txt")
        subprocess.run([*pip, *options, *WANTED], check=True)
        found = json.loads(report.read_text())["install"]
    lines = sorted(
        f"{package['metadata']['name'].lower()}=={package['metadata']['version']}"
        f" --hash=sha256:{package['download_info']['archive_info']['hashes']['sha256']}\n"
        for package in found
        if "archive_info" in package["download_info"]  # not the package itself
    )
    (ROOT / "deploy" / "requirements.txt").write_text(TITLE + "".join(lines))


if __name__ == "__main__":
    main()
