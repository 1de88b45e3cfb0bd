"""Everything a table with a center needs, from a checkpoint or a bare model to its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from sigma_mem.bench.center_cf import center_cf
from sigma_mem.bench.center_rows import ROWS, Scorer
from sigma_mem.bench.league import Row
from sigma_mem.bench.ray_scoring import checkpoint_scorer, in_chunks, model_scorer, ray_scorer
from sigma_mem.bench.with_center import BenchCenter
from sigma_mem.encode import open_encoder
from sigma_mem.events import FloatArray
from sigma_mem.memory import Settings
from sigma_mem.streams import Stream

__all__ = ["center_table", "opened_center"]

_BARE = ("base", "zero-M")  # what can be said of a center without a steering


def center_table(
    stream: Stream,
    *,
    center: str | None = None,
    steering: str | Path | None = None,
    ratios: Sequence[float] = (0.0, 0.5, 0.7, 0.9),
    after: int = 0,
    limit: int | None = None,
    seed: int = 0,
    ray: str | None = None,
    workers: int = 2,
    cache: str | Path | None = None,
    options: Mapping[str, Any] | None = None,
    say: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> dict[float, dict[str, Row]]:
    """Rows of a center at every attack ratio; see `center_cf` for the events that are judged.

    Parameters
    ----------
    center, steering
        Name or folder of a model, and a checkpoint that was trained for it. With a checkpoint alone its own
        model is taken; with a model alone there are only the rows ``base`` and ``zero-M``.
    ray, workers
        Address of a Ray cluster over which the judging is spread, and how many centers to load there.
    cache
        Folder for lower-half states and features; by default the user's cache folder.
    options
        More of ``Center.load``: device, dtype, device_map.
    """
    with opened_center(
        [event.question for event in stream],
        center=center,
        steering=steering,
        after=after,
        limit=limit,
        seed=seed,
        ray=ray,
        workers=workers,
        cache=cache,
        options=options,
        say=say,
    ) as judge:
        return center_cf(
            stream,
            np.stack([judge.phi[event.question] for event in stream]),
            judge.scorer,
            fast=judge.fast,
            gamma=judge.gamma,
            ratios=ratios,
            after=after,
            limit=limit,
            seed=seed,
            rows=judge.rows,
            say=partial(say, "judging"),
        )


@contextmanager
def opened_center(
    questions: Sequence[str],
    *,
    center: str | None = None,
    steering: str | Path | None = None,
    after: int = 0,
    limit: int | None = None,
    seed: int = 0,
    ray: str | None = None,
    workers: int = 2,
    cache: str | Path | None = None,
    options: Mapping[str, Any] | None = None,
    say: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> Iterator[BenchCenter]:
    """A center for as many tables as the ``with`` lasts; parameters as of `center_table`.

    Parameters
    ----------
    questions
        Of all streams that will be judged or learned from: their φ is made here, before the judging begins.
    """
    from sigma_mem.center.pull import cache_dir

    folder = Path(cache) if cache is not None else cache_dir() / "states"
    given = {**(options or {}), "cache": folder}
    texts = list(dict.fromkeys(questions))
    name, phis, fast, gamma = _reading(texts, center, steering, given, say)
    build: Callable[[], Scorer] = (
        partial(model_scorer, center or "smollm2", **given)
        if steering is None
        else partial(checkpoint_scorer, steering, center, **given)
    )
    with _scorer(build, ray, workers, partial(say, "prompts")) as scorer:
        yield BenchCenter(
            name=name,
            steering=None if steering is None else str(steering),
            scorer=scorer,
            phi=dict(zip(texts, phis, strict=True)),
            fast=fast,
            gamma=gamma,
            rows=_BARE if steering is None else ROWS,
            after=after,
            limit=limit,
            seed=seed,
        )


def _reading(
    questions: Sequence[str],
    center: str | None,
    steering: str | Path | None,
    given: Mapping[str, Any],
    say: Callable[[str, int, int], None],
) -> tuple[str, FloatArray, FloatArray | None, float]:
    """Name of the model, φ of every question, w of the fast read, and γ of the memory."""
    if steering is None:
        return center or "smollm2", open_encoder("static").encode(questions), None, Settings().gamma
    from sigma_mem.center.feature_cache import kept_features
    from sigma_mem.center.opened import open_checkpoint

    opened = open_checkpoint(steering, center=center, **given)
    features = kept_features(opened.encoder.source, questions, given["cache"], say=partial(say, "features"))
    return opened.center.name, opened.encoder.phi(features), opened.fast, opened.gamma


@contextmanager
def _scorer(
    build: Callable[[], Scorer], ray: str | None, workers: int, say: Callable[[int, int], None]
) -> Iterator[Scorer]:
    if ray is None:
        yield in_chunks(build(), say=say)
        return
    with ray_scorer(build, address=ray, workers=workers) as scorer:
        yield scorer
