"""What the tests of product and laboratory share: one thread a process, hypothesis settings, real streams."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Before numpy and torch are imported, and for every process that a test starts: a sum over two threads is
# rounded differently, and test processes that run side by side would fight for the cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")

from sigma_mem.streams import Stream, load_stream

# The machine may be busy, so no example has a deadline.
settings.register_profile(
    "sigma-mem",
    deadline=None,
    max_examples=40,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("endurance", settings.get_profile("sigma-mem"), max_examples=2000)
settings.load_profile("sigma-mem")

DATA = Path(__file__).parents[1] / "shared" / "data"


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
