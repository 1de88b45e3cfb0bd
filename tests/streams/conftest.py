from __future__ import annotations

from pathlib import Path

import pytest

from sigma_mem.streams import Stream, load_stream

DATA = Path(__file__).parents[3] / "shared" / "data"


def _recorded(name: str) -> Stream:
    file = DATA / f"{name}.jsonl.gz"
    if not file.exists():
        pytest.skip(f"{file} is absent: the recorded streams are not part of the package")
    return load_stream(file)


@pytest.fixture(scope="session")
def mmlu_pro() -> Stream:
    return _recorded("mmlu-pro")


@pytest.fixture(scope="session")
def zeroeval() -> Stream:
    return _recorded("zeroeval")
