"""Open what a table with a center needs, from a checkpoint or a bare model, here or on a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from sigma_mem.bench.center_rows import ROWS, Scorer
from sigma_mem.bench.ray_scoring import checkpoint_scorer, in_chunks, model_scorer, ray_scorer
from sigma_mem.bench.with_center import BenchCenter
from sigma_mem.encode import open_encoder
from sigma_mem.events import FloatArray
from sigma_mem.memory import Settings

__all__ = ["opened_center"]

_BARE = ("base", "zero-M")  # what can be said of a center without a steering


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
    """A center for as many tables as the ``with`` lasts.

    Parameters
    ----------
    questions
        Of all streams that will be judged or learned from: their φ is made here, before the judging begins.
    center, steering
        Name or folder of a model, and a checkpoint that was trained for it. With a checkpoint alone its own
        model is taken; with a model alone there are only the rows ``base`` and ``zero-M``.
    after, limit, seed
        Which events are judged; see `judged_events`.
    ray, workers
        Address of a Ray cluster over which the judging is spread, and how many centers to load there.
    cache
        Folder for lower-half states and features; by default the user's cache folder.
    options
        More of ``Center.load``: device, dtype, device_map.
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
