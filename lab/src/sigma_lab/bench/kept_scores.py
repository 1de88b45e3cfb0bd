"""Utilities on disk, by content: what a center has judged once is not judged again, in any table or run."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np

from sigma_lab.bench.ray_scoring import Pair, Pairs, Scorer
from sigma_mem.events import FloatArray

_RECORD = struct.Struct("<32sd")  # key, utility


class KeptScores:
    """A file of utilities by the SHA-256 of judge, steering, question, answer and readout.

    It only grows, a few hundred prompts at a time: a killed run loses at most those, and an unfinished
    record at the end is cut off. Two runs may share one file; each sees what was there when it began.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        data = path.read_bytes() if path.exists() else b""
        whole = len(data) - len(data) % _RECORD.size
        if whole < len(data):
            with path.open("r+b") as file:
                file.truncate(whole)
        self._known = dict(_RECORD.iter_unpack(data[:whole]))
        self.asked = 0  # prompts that a center judged through this object

    def __len__(self) -> int:
        return len(self._known)

    def scorer(
        self,
        scorer: Scorer,
        judge: str,
        steering: str | Path | None,
        progress: Callable[[int, int], None] = lambda done, total: None,
        chunk: int = 192,
    ) -> Scorer:
        """The same scorer, which judges only what is not known yet, and keeps it every ``chunk`` prompts.

        ``judge`` names weights and prompt; ``steering`` is the checkpoint, whose content enters the key of
        every steered utility, and of no other.
        """
        name = "" if steering is None else hashlib.sha256(Path(steering).read_bytes()).hexdigest()

        def score(pairs: Pairs, readouts: FloatArray | None) -> FloatArray:
            shifts = [None] * len(pairs) if readouts is None else list(readouts)
            keys = [_key(judge, name, pair, by) for pair, by in zip(pairs, shifts, strict=True)]
            todo = {key: i for i, key in enumerate(keys) if key not in self._known}
            places = sorted(todo.values())
            for start in range(0, len(places), chunk):
                part = places[start : start + chunk]
                found = scorer([pairs[i] for i in part], None if readouts is None else readouts[part])
                self._keep([keys[i] for i in part], found)
                progress(start + len(part), len(places))
            return np.array([self._known[key] for key in keys])

        return score

    def _keep(self, keys: list[bytes], utilities: FloatArray) -> None:
        with self.path.open("ab") as file:
            file.write(b"".join(map(_RECORD.pack, keys, utilities.tolist())))
        self._known.update(zip(keys, utilities.tolist(), strict=True))
        self.asked += len(keys)


def _key(judge: str, steering: str, pair: Pair, readout: FloatArray | None) -> bytes:
    steered = readout is not None and bool(readout.any())
    digest = hashlib.sha256("\x1f".join((judge, steering if steered else "", *pair)).encode())
    if readout is not None and steered:
        digest.update(readout.astype("<f8").tobytes())
    return digest.digest()
