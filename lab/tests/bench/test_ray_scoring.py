"""Two local Ray workers give the numbers of one process, also when a worker is killed on the way."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from sigma_lab.bench.center import Scorer
from sigma_lab.bench.ray_scoring import in_chunks, ray_scorer
from sigma_mem.errors import InputError
from sigma_mem.events import FloatArray

ray = pytest.importorskip("ray", reason="needs the extra [ray]")
pytestmark = pytest.mark.filterwarnings("ignore")  # Ray's own, on start and on shutdown

PAIRS = [(f"question {i}", "answer " * (i % 5)) for i in range(23)]
READOUTS = np.random.default_rng(0).normal(size=(23, 4))


def build(folder: str, pause: float = 0.0) -> Scorer:
    """A scorer that notes which process scored how much."""

    def score(pairs: Sequence[tuple[str, str]], readouts: FloatArray | None) -> FloatArray:
        time.sleep(pause)
        with Path(folder, str(os.getpid())).open("a") as file:
            file.write(f"{len(pairs)}\n")
        base = np.array([float(len(q) + 10 * len(a)) for q, a in pairs])
        return base if readouts is None else base + readouts.sum(axis=1)

    return score


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    here = str(Path(__file__).parent)
    ray.init(
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="ERROR",
        runtime_env={"env_vars": {"PYTHONPATH": here, "OMP_NUM_THREADS": "1"}},
    )
    yield
    ray.shutdown()


def test_two_workers_give_the_numbers_of_one_process(cluster: None, tmp_path: Path) -> None:
    alone, shared = tmp_path / "alone", tmp_path / "shared"
    alone.mkdir()
    shared.mkdir()
    here = in_chunks(build(str(alone)), chunk=3)
    with ray_scorer(partial(build, str(shared), 0.05), address="local", chunk=3) as scorer:
        for readouts in (READOUTS, None):
            np.testing.assert_array_equal(scorer(PAIRS, readouts), here(PAIRS, readouts))
        assert scorer([], None).shape == (0,)
    assert len(list(shared.iterdir())) == 2  # both took part
    counts = [int(line) for file in shared.iterdir() for line in file.read_text().split()]
    assert sorted(counts) == sorted([3] * 14 + [2] * 2)


def test_a_killed_workers_task_is_retried(cluster: None, tmp_path: Path) -> None:
    want = build(str(tmp_path))(PAIRS, READOUTS)
    shared = tmp_path / "shared"
    shared.mkdir()
    with ray_scorer(partial(build, str(shared), 0.3), address="local", chunk=2) as scorer:
        pool = scorer.args[1]  # type: ignore[attr-defined]
        victim = ray.get(pool[0].process.remote())
        task = ray.remote(num_cpus=0)(_kill_soon).remote(victim)
        np.testing.assert_array_equal(scorer(PAIRS, READOUTS), want)
        ray.get(task)
        assert ray.get(pool[0].process.remote()) != victim


def _kill_soon(process: int) -> None:
    time.sleep(0.7)
    os.kill(process, signal.SIGKILL)


def test_bad_settings_are_named() -> None:
    with (
        pytest.raises(InputError, match="0 workers"),
        ray_scorer(partial(build, "."), address="local", workers=0),
    ):
        pass
