"""Lower-half hidden states on disk: bounded, shared by every ratio, epoch and ablation.

A directory holds segments, each a data file of raw values and an index of fixed records that
say where the states of a key stand. A process appends only to segments of its own, so that several
workers may share a directory; when the directory would outgrow its bound, the oldest segments go.
"""

from __future__ import annotations

import hashlib
import struct
import time
import uuid
import zlib
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from sigma_mem.errors import InputError

_RECORD = struct.Struct("<32sQIII")  # key, offset, tokens, width × item size, crc32 of the data


def state_key(model: str, at: int, ids: Iterable[int]) -> bytes:
    """32 bytes that name the states of a prompt's tokens at the input of block ``at`` of a model.

    The ids are those of (prompt version, question, answer) and say all of it; who gave the answer does
    not enter, so a swapped answer is found again.
    """
    return hashlib.sha256(f"{model}|{at}|".encode() + np.fromiter(ids, dtype="<i8").tobytes()).digest()


class StateCache:
    """Hidden states by key, at most ``max_bytes`` of them on disk.

    Parameters
    ----------
    path
        Directory, made if absent. It may be deleted at any time when no process uses it.
    max_bytes, segment_bytes
        Bound of the whole directory, and of one file; eviction drops whole files, oldest first.

    Bytes whose checksum is wrong count as absent.
    """

    def __init__(
        self, path: str | Path, *, max_bytes: int = 8 << 30, segment_bytes: int | None = None
    ) -> None:
        segment_bytes = min(256 << 20, max(max_bytes // 8, 1)) if segment_bytes is None else segment_bytes
        if not 0 < segment_bytes <= max_bytes:
            raise InputError(
                f"segment_bytes is {segment_bytes}; expected above 0 and at most max_bytes = {max_bytes}"
            )
        self.path = Path(path)
        self.path.mkdir(parents=True, exist_ok=True)
        self.max_bytes, self.segment_bytes = max_bytes, segment_bytes
        self.hits = 0
        self._where: dict[bytes, tuple[Path, int, int, int, int]] = {}
        self._segment: Path | None = None
        for index in self._indexes():
            records, data = index.read_bytes(), index.with_suffix(".states")
            size = _size(data)
            whole = len(records) - len(records) % _RECORD.size  # a killed writer may leave a torn last record
            for key, offset, tokens, row_bytes, crc in _RECORD.iter_unpack(records[:whole]):
                if offset + tokens * row_bytes <= size:
                    self._where[key] = (data, offset, tokens, row_bytes, crc)

    def __len__(self) -> int:
        return len(self._where)

    @property
    def nbytes(self) -> int:
        """Bytes that the directory holds now."""
        return sum(_size(file) for file in self.path.iterdir())

    def get(self, key: bytes, dtype: torch.dtype) -> Tensor | None:
        """(T, d) states under ``key`` on the CPU, or None."""
        if key in self._where:
            path, offset, tokens, row_bytes, crc = self._where[key]
            # Another process may have evicted the segment.
            with suppress(OSError):
                data = np.fromfile(path, dtype=np.uint8, offset=offset, count=tokens * row_bytes)
                if zlib.crc32(data.data) == crc:
                    self.hits += 1
                    return torch.from_numpy(data.reshape(tokens, row_bytes)).view(dtype)
            del self._where[key]
        return None

    def put(self, key: bytes, states: Tensor) -> None:
        """Keep ``states`` (T, d) under ``key``; a key that is there already is left alone."""
        if key in self._where:
            return
        data = states.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes()
        if len(data) + _RECORD.size > self.segment_bytes:
            return  # one row larger than a whole segment cannot be kept within the bound
        if self._segment is None or _size(self._segment) + len(data) > self.segment_bytes:
            self._evict(self.max_bytes - self.segment_bytes)
            self._segment = self.path / f"{time.time_ns():020d}-{uuid.uuid4().hex[:8]}.states"
        with self._segment.open("ab") as file:
            offset = file.tell()
            file.write(data)
        record = offset, len(states), len(data) // max(len(states), 1), zlib.crc32(data)
        with self._segment.with_suffix(".index").open("ab") as index:  # after the data that it speaks of
            index.write(_RECORD.pack(key, *record))
        self._where[key] = (self._segment, *record)

    def _evict(self, keep: int) -> None:
        """Drop the oldest segments until the directory holds at most ``keep`` bytes."""
        for index in self._indexes():
            if self.nbytes <= keep:
                return
            gone = index.with_suffix(".states")
            index.unlink(missing_ok=True)
            gone.unlink(missing_ok=True)
            self._where = {key: place for key, place in self._where.items() if place[0] != gone}

    def _indexes(self) -> list[Path]:
        return sorted(self.path.glob("*.index"))  # their names begin with the time


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
