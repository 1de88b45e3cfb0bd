"""The small stream, and the real ones where they are at hand."""

from pathlib import Path

import pytest
from madeup import made_up

from sigma_mem.events import FloatArray
from sigma_mem.streams import Stream

DATA = Path(__file__).parents[4] / "shared" / "data"


@pytest.fixture
def small() -> tuple[Stream, FloatArray]:
    return made_up()


@pytest.fixture(scope="session")
def real() -> Path:
    if not (DATA / "mmlu-pro.jsonl.gz").is_file():
        pytest.skip(f"no recorded streams at {DATA}; they are not part of the package")
    return DATA


@pytest.fixture(scope="session")
def tiny_steering(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A steering of three peers for a tiny center, which is in the folder ``model`` beside it."""
    pytest.importorskip("torch", reason="needs the extra [center]")
    from tinysteering import tiny_checkpoint

    from train.tiny import tiny_stream

    return tiny_checkpoint(tiny_stream(60, peers=3), tmp_path_factory.mktemp("center"))
