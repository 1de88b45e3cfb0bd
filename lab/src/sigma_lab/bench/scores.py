"""Utilities by content: what a center has judged once is not judged again, in any table or run."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from sigma_mem.events import FloatArray

_RECORD = struct.Struct("<32sd")  # key, utility
RECORD_BYTES = _RECORD.size
_CHUNK = 48  # prompts that a center gets at a time: bounded memory, and little lost by a kill

Pair = tuple[str, str] | tuple[str, str, str]
"""A question and an answer, with the peer's name if the prompt has it."""
Scorer = Callable[[Sequence[Pair], FloatArray | None], FloatArray]
"""From pairs and one readout each, or None for the base judge, to utilities."""


class Scores:
    """Utilities by the SHA-256 of judge, steering, question, answer and readout, in a file if one is given.

    The file only grows, a few prompts at a time: a killed run loses at most those, and an unfinished
    record at the end is cut off. Two runs may share one file; each sees what was there when it began.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self.asked = 0  # prompts that a center judged through this object
        self._known: dict[bytes, float] = {}
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            data = path.read_bytes() if path.exists() else b""
            whole = len(data) - len(data) % _RECORD.size
            if whole < len(data):
                with path.open("r+b") as file:
                    file.truncate(whole)
            self._known = dict(_RECORD.iter_unpack(data[:whole]))

    def __len__(self) -> int:
        return len(self._known)

    def scorer(
        self,
        scorer: Scorer,
        judge: str,
        steering: str | Path | None,
        progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> Scorer:
        """The same scorer, which judges only what is not known yet.

        ``judge`` names weights and prompt; ``steering`` is the checkpoint, whose content enters the key of
        every steered utility, and of no other.
        """
        name = "" if steering is None else hashlib.sha256(Path(steering).read_bytes()).hexdigest()

        def score(pairs: Sequence[Pair], readouts: FloatArray | None) -> FloatArray:
            shifts = [None] * len(pairs) if readouts is None else list(readouts)
            keys = [_key(judge, name, pair, by) for pair, by in zip(pairs, shifts, strict=True)]
            places = sorted({key: i for i, key in enumerate(keys) if key not in self._known}.values())
            for start in range(0, len(places), _CHUNK):
                part = places[start : start + _CHUNK]
                found = scorer([pairs[i] for i in part], None if readouts is None else readouts[part])
                self._keep([keys[i] for i in part], found)
                progress(start + len(part), len(places))
            return np.array([self._known[key] for key in keys])

        return score

    def _keep(self, keys: list[bytes], utilities: FloatArray) -> None:
        if self.path is not None:
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
