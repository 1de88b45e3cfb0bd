"""Features of questions, computed once and kept in one file per source of features."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from sigma_mem.center.features import Features
from sigma_mem.events import FloatArray

__all__ = ["kept_features"]


def kept_features(
    source: Features,
    texts: Sequence[str],
    folder: str | Path | None,
    *,
    say: Callable[[int, int], None] = lambda done, total: None,
    chunk: int = 64,
    save_every: int = 16,
) -> FloatArray:
    """(n, D) features of ``texts``, from ``folder`` where they are known.

    Parameters
    ----------
    folder
        None keeps nothing.
    say
        Called with (done, total) as the missing ones are computed.
    save_every
        Chunks between saves, so that a kill loses little.
    """
    keys = [hashlib.sha256(text.encode()).digest()[:16] for text in texts]
    file = None if folder is None else Path(folder) / f"features-{_short(source.name)}.safetensors"
    known = {} if file is None else _read(file)
    missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
    todo = list(missing.items())
    for count, start in enumerate(range(0, len(todo), chunk), start=1):
        part = todo[start : start + chunk]
        rows = source.features([text for _, text in part])
        known.update((key, row) for (key, _), row in zip(part, rows, strict=True))
        last = start + chunk >= len(todo)
        if file is not None and (last or count % save_every == 0):
            _write(file, known)
        say(min(start + chunk, len(todo)), len(todo))
    if not texts:
        return source.features(texts)
    return np.stack([known[key] for key in keys])


def _short(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:24]


def _read(file: Path) -> dict[bytes, FloatArray]:
    try:
        found = load_file(file)
        keys: NDArray[np.uint8] = found["keys"]
        return {key.tobytes(): row for key, row in zip(keys, found["features"], strict=True)}
    except (OSError, SafetensorError, KeyError, ValueError):
        return {}  # absent or damaged: computed again


def _write(file: Path, known: dict[bytes, FloatArray]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_name(f"{file.name}.{os.getpid()}.partial")
    keys = np.frombuffer(b"".join(known), dtype=np.uint8).reshape(-1, 16)
    save_file({"keys": keys.copy(), "features": np.stack(list(known.values()))}, partial)
    partial.replace(file)
