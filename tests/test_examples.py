"""The examples run as they are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
NOTEBOOK = ROOT / "examples" / "story.ipynb"
STREAM = Path(os.environ.get("SIGMA_MEM_STREAM", ROOT.parent / "shared" / "data" / "llmbar.jsonl.gz"))
SAYS = {
    "router.py": "adder: chosen",
    "dishonest_source.py": "lines taken back: 30",
    "budget.py": "of 2.50: {",
    "async_agents.py": "the last 30: 30",
}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_an_example_runs_and_says_what_it_should(example: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", str(example)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert SAYS[example.name] in done.stdout


@pytest.mark.skipif(not STREAM.is_file(), reason=f"needs the recorded stream {STREAM}")
def test_the_notebook_runs_on_a_real_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pandas", reason="needs the extra [pandas]")
    monkeypatch.setenv("SIGMA_MEM_STREAM", str(STREAM))
    monkeypatch.setenv("SIGMA_MEM_LIMIT", "200")
    cells = json.loads(NOTEBOOK.read_text("utf-8"))["cells"]
    scope: dict[str, object] = {}
    for number, cell in enumerate(cells):
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), f"cell {number}", "exec"), scope)
