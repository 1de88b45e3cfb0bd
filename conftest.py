"""What the tests of product and laboratory share: one thread a process, hypothesis settings, real streams."""

import os
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Before numpy and torch are imported, and for every process that a test starts: a sum over two threads is
# rounded differently, and test processes that run side by side would fight for the cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")

from sigma_mem.streams import Stream, load_stream

# A command that a script starts in the background ignores SIGINT, and so would every process that a test
# starts and wants to interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The same examples in every run, so that a change is never refused because of a draw; new ones are drawn by
# `make endurance`. The machine may be busy, so no example has a deadline.
settings.register_profile(
    "sigma-mem",
    deadline=None,
    derandomize=True,
    max_examples=40,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "endurance", settings.get_profile("sigma-mem"), derandomize=False, max_examples=2000
)
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
