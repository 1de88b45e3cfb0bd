"""Record the golden corpus again, after arithmetic changed on purpose: ``python -m tests.golden.record``."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from .scenarios import SCENARIOS

FILE = Path(__file__).with_name("golden.json.gz")


def recorded() -> dict[str, dict[str, object]]:
    """What every scenario said when the corpus was recorded."""
    return json.loads(gzip.decompress(FILE.read_bytes()))


if __name__ == "__main__":
    text = json.dumps({name: scenario() for name, scenario in SCENARIOS.items()}, separators=(",", ":"))
    FILE.write_bytes(gzip.compress(text.encode(), mtime=0))
    print(f"{FILE}: {FILE.stat().st_size} bytes")
