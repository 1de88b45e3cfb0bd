"""Lower-half hidden states on disk: bounded, shared by every ratio, epoch and ablation.

A SQLite file in a directory, which several workers may share. Training and tables read the same prompts pass
after pass, so what a process wrote or read is kept until it ends: when the file would outgrow its bound, the
oldest of the other states go, and if there are none, nothing more is written. A pass that is twice as large
as the bound then finds half of its states. It is a cache: whatever is wrong with the file, states count as
absent.
"""

from __future__ import annotations

import hashlib
import sqlite3
import weakref
import zlib
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from sigma_mem.errors import InputError

_SCHEMA = "CREATE TABLE IF NOT EXISTS states (key BLOB UNIQUE, tokens INTEGER, crc INTEGER, data BLOB)"


def state_key(model: str, at: int, ids: Iterable[int]) -> bytes:
    """32 bytes that name the states of a prompt's tokens at the input of block ``at`` of a model.

    The ids are those of (prompt version, question, answer) and complete. The peer that answered does
    not enter, so a swapped answer is found again.
    """
    return hashlib.sha256(f"{model}|{at}|".encode() + np.fromiter(ids, dtype="<i8").tobytes()).digest()


class StateCache:
    """Hidden states by key, at most ``max_bytes`` of them on disk.

    Parameters
    ----------
    path
        Directory, made if absent. It may be deleted at any time when no process uses it.
    max_bytes
        Bound of its file; if there is no room, the oldest states go that this process did not use.
    """

    def __init__(self, path: str | Path, *, max_bytes: int = 8 << 30) -> None:
        if max_bytes <= 0:
            raise InputError(f"max_bytes is {max_bytes}; expected above 0")
        self.path, self.max_bytes, self.hits = Path(path), max_bytes, 0
        self.path.mkdir(parents=True, exist_ok=True)
        self._db = sqlite3.connect(
            self.path / "states.db", 30.0, isolation_level=None, check_same_thread=False
        )
        weakref.finalize(self, self._db.close)
        self._read: set[int] = set()  # rows of earlier processes that this one read
        self._before, self._full = 0, False
        with suppress(sqlite3.Error):
            self._db.execute(f"PRAGMA max_page_count = {max(max_bytes // 4096, 4)}")
            self._db.execute("PRAGMA synchronous = OFF")  # what a power cut damages has a wrong checksum
            self._db.execute(_SCHEMA)
            (self._before,) = self._db.execute("SELECT coalesce(max(rowid), 0) FROM states").fetchone()

    def __len__(self) -> int:
        return int(self._db.execute("SELECT count(*) FROM states").fetchone()[0])

    @property
    def nbytes(self) -> int:
        """Bytes of the file."""
        return (self.path / "states.db").stat().st_size

    def get(self, key: bytes, dtype: torch.dtype) -> Tensor | None:
        """(T, d) states under ``key`` on the CPU, or None."""
        with suppress(sqlite3.Error):
            found = self._db.execute(
                "SELECT tokens, crc, data, rowid FROM states WHERE key = ?", (key,)
            ).fetchone()
            if found is not None and zlib.crc32(found[2]) == found[1]:
                self.hits += 1
                self._read.add(found[3])
                data = np.frombuffer(bytearray(found[2]), dtype=np.uint8)
                return torch.from_numpy(data.reshape(found[0], -1)).view(dtype)
            if found is not None:
                self._db.execute("DELETE FROM states WHERE key = ?", (key,))
        return None

    def put(self, key: bytes, states: Tensor) -> None:
        """Keep ``states`` (T, d) under ``key``; a key that is there already is left alone."""
        data = states.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes()
        if self._full or 2 * len(data) > self.max_bytes:
            return
        values = (key, len(states), zlib.crc32(data), data)
        with suppress(sqlite3.Error):
            while True:
                try:
                    self._db.execute("INSERT OR IGNORE INTO states VALUES (?, ?, ?, ?)", values)
                    return
                except sqlite3.OperationalError:  # no room
                    if not self._evict():
                        self._full = True
                        return

    def _evict(self) -> int:
        """Drop the oldest of the states that this process neither wrote nor read; how many."""
        rows = self._db.execute("SELECT rowid FROM states WHERE rowid <= ? ORDER BY rowid", (self._before,))
        unused = [row for (row,) in rows if row not in self._read]
        gone = unused[: 1 + len(unused) // 8]
        self._db.executemany("DELETE FROM states WHERE rowid = ?", [(row,) for row in gone])
        return len(gone)


def open_cache(folder: str | Path, gigabytes: float) -> StateCache | None:
    """A cache of at most this many gigabytes; None for 0."""
    return StateCache(folder, max_bytes=int(gigabytes * 2**30)) if gigabytes > 0.0 else None
