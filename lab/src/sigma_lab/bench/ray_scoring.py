"""Spread the judging of a large stream over a cluster with Ray (extra ``[ray]``).

Every worker loads the center once and scores chunks of prompts. A worker that dies is started again and its
chunk is scored anew. The chunks are the same however many workers there are.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sigma_mem.errors import InputError
from sigma_mem.events import FloatArray
from sigma_mem.extras import require

if TYPE_CHECKING:
    from sigma_mem.center import Center


Pair = tuple[str, str] | tuple[str, str, str]
Pairs = Sequence[Pair]
# (question, answer) pairs, with the peer's name where the prompt says it, and one readout each, or None for
# the base judge → utilities.
Scorer = Callable[[Pairs, FloatArray | None], FloatArray]


def load_scorer(center: str | None, steering: str | Path | None, **options: Any) -> Scorer:
    """A scorer by a bare model, or by the center of a checkpoint, with the options of ``Center.load``."""
    from sigma_mem.center import Center, open_checkpoint

    if steering is None:
        return center_scorer(Center.load(center or "smollm2", **options))
    return center_scorer(open_checkpoint(steering, center=center, **options).center)


def center_scorer(center: Center) -> Scorer:
    """A scorer by a center that is loaded; without a steering it ignores the readouts."""
    return lambda pairs, readouts: center.judge_pairs(pairs, readouts).utility


def in_chunks(
    scorer: Scorer, chunk: int = 48, progress: Callable[[int, int], None] = lambda done, total: None
) -> Scorer:
    """The same scorer, asked for ``chunk`` prompts at a time: bounded memory, and a cluster's numbers."""

    def score(pairs: Pairs, readouts: FloatArray | None) -> FloatArray:
        parts = []
        for part in _parts(pairs, readouts, chunk):
            parts.append(scorer(*part))
            progress(min(chunk * len(parts), len(pairs)), len(pairs))
        return np.concatenate(parts) if parts else np.zeros(0)

    return score


@contextmanager
def ray_scorer(
    build: Callable[[], Scorer],
    *,
    address: str,
    workers: int = 2,
    chunk: int = 48,
    device: str | None = None,
    device_map: str | None = None,
) -> Iterator[Scorer]:
    """A scorer spread over workers of a Ray cluster while the ``with`` lasts.

    ``build`` makes the scorer in each worker, where its files must be readable. The address is what
    ``ray.init`` takes (``auto``, ``ray://host:10001``); ``local`` starts a cluster here. The cluster's GPUs
    are shared out among the workers, unless ``device`` is the CPU.
    """
    if workers < 1 or chunk < 1:
        raise InputError(f"got {workers} workers and chunks of {chunk}; expected at least 1 of each")
    ray = require("ray", extra="ray", distribution="sigma-lab", purpose="scoring on a cluster")
    mine = not ray.is_initialized()
    if mine:
        _connect(ray, address, workers)
    # Ray starts a dead worker again (restarts) and gives it the task that it had (task retries).
    found = 0.0 if (device or "").startswith("cpu") else float(ray.cluster_resources().get("GPU", 0.0))
    gpus = gpus_each(found, workers, several=device_map is not None)
    remote = ray.remote(max_restarts=-1, max_task_retries=-1, num_cpus=1, num_gpus=gpus)(_Worker)
    pool = [remote.remote(build) for _ in range(workers)]
    try:
        yield partial(_spread, ray, pool, chunk)
    finally:
        for worker in pool:
            ray.kill(worker)
        if mine:
            ray.shutdown()


def gpus_each(found: float, workers: int, several: bool) -> float:
    """How many GPUs a worker asks for: a share of one, one, or several where its model is spread over them.

    >>> gpus_each(2, 8, several=False), gpus_each(8, 2, several=False), gpus_each(8, 2, several=True)
    (0.25, 1.0, 4.0)
    """
    share = found / workers
    return share if share < 1.0 else float(share // 1) if several else 1.0


class _Worker:
    """One process of the cluster with a scorer of its own."""

    def __init__(self, build: Callable[[], Scorer]) -> None:
        self._scorer = build()

    def score(self, pairs: Pairs, readouts: FloatArray | None) -> FloatArray:
        return self._scorer(pairs, readouts)

    def process(self) -> int:
        """Id of the process, for those who watch it."""
        return os.getpid()


def _spread(
    ray: Any, pool: Sequence[Any], chunk: int, pairs: Pairs, readouts: FloatArray | None
) -> FloatArray:
    """Give the next chunk to whichever worker is free, and put the results back in order."""
    waiting = list(enumerate(_parts(pairs, readouts, chunk)))[::-1]
    found: dict[int, FloatArray] = {}
    running: dict[Any, tuple[int, Any]] = {}
    idle = list(pool)
    while waiting or running:
        while waiting and idle:
            worker, (place, part) = idle.pop(), waiting.pop()
            running[worker.score.remote(*part)] = (place, worker)
        (done, *_), _ = ray.wait(list(running), num_returns=1)
        place, worker = running.pop(done)
        found[place] = ray.get(done)
        idle.append(worker)
    return np.concatenate([found[place] for place in sorted(found)]) if found else np.zeros(0)


def _parts(pairs: Pairs, readouts: FloatArray | None, chunk: int) -> list[tuple[Pairs, FloatArray | None]]:
    return [
        (list(pairs[start : start + chunk]), None if readouts is None else readouts[start : start + chunk])
        for start in range(0, len(pairs), chunk)
    ]


def _connect(ray: Any, address: str, workers: int) -> None:
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if address == "local":
        # Named, so that no cluster which the environment names is joined instead.
        ray.init(address="local", num_cpus=workers, include_dashboard=False, **quiet)
        return
    try:
        ray.init(address=address, **quiet)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise InputError(
            f"no Ray cluster answers at {address!r} ({str(error).splitlines()[0]}); start one with "
            "ray start --head, or give --ray local"
        ) from error
