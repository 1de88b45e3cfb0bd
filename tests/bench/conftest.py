"""The small stream, and the real ones where they are at hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from madeup import made_up

from sigma_mem.events import FloatArray
from sigma_mem.streams import Stream

DATA = Path(__file__).parents[3] / "shared" / "data"


@pytest.fixture
def small() -> tuple[Stream, FloatArray]:
    return made_up()


@pytest.fixture(scope="session")
def real() -> Path:
    if not (DATA / "mmlu-pro.jsonl.gz").is_file():
        pytest.skip(f"no recorded streams at {DATA}; they are not part of the package")
    return DATA
