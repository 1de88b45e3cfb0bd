"""How well `SigmaMem.drift` names updated peers, and how seldom others, with all labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import median
from typing import Any

import numpy as np

from sigma_mem.events import FloatArray
from sigma_mem.memory.drift import SURE, WINDOW, find_changes
from sigma_mem.streams import Stream

CLEAR = 0.1  # a change of the rate that a person would call one


@dataclass(frozen=True, slots=True)
class UpdatedPeer:
    """One updated peer: by how much its rate moved; if named, how many labelled events later, how far off."""

    moved: float
    delay: int | None = None
    error: int | None = None


@dataclass(frozen=True, slots=True)
class Naming:
    """Checkpoints of peers that had not changed, how many of them were named, and every updated peer."""

    unchanged: int
    alarms: int
    updates: tuple[UpdatedPeer, ...] = ()

    @classmethod
    def joined(cls, parts: Sequence[Naming]) -> Naming:
        """All of them together."""
        updates = tuple(chain.from_iterable(part.updates for part in parts))
        return cls(sum(p.unchanged for p in parts), sum(p.alarms for p in parts), updates)

    def __str__(self) -> str:
        rate = self.alarms / max(self.unchanged, 1)
        said = f"unchanged peers named at {rate:.1%} of {self.unchanged} checkpoints"
        clear = [update for update in self.updates if update.moved >= CLEAR]
        if self.updates:
            said += f"; updated peers named: {_count(self.updates)}"
            said += f", of those that moved by {100 * CLEAR:.0f} points or more {_count(clear)}"
        named = [(u.delay, u.error) for u in self.updates if u.delay is not None and u.error is not None]
        if named:
            delay, error = (median(column) for column in zip(*named, strict=True))
            said += (
                f"; median delay {delay:.0f} labelled events, median error of the change point {error:.0f}"
            )
        return said

    def values(self) -> dict[str, Any]:
        """As plain values."""
        updates = [
            {"moved": round(u.moved, 4), "delay": u.delay, "change_point_error": u.error}
            for u in self.updates
        ]
        return {"unchanged_checkpoints": self.unchanged, "false_alarms": self.alarms, "updates": updates}


def name_changes(stream: Stream, phis: FloatArray, began: Mapping[str, int], every: int) -> Naming:
    """Find changed peers after every so many events; ``began`` has the first event of every updated one."""
    labels = stream.labels()
    unchanged = alarms = 0
    first: dict[str, tuple[int, int]] = {}
    for end in range(every, len(stream) + 1, every):
        rows = np.flatnonzero(~np.isnan(labels[:end]).all(axis=1))[-WINDOW:]
        for peer, change in zip(stream.peers, find_changes(phis[rows], labels[rows]), strict=True):
            named = change is not None and change.confidence >= SURE
            if end > began.get(peer, end):
                if change is not None and named:
                    first.setdefault(peer, (end - began[peer], abs(int(rows[change.place]) - began[peer])))
            else:
                unchanged, alarms = unchanged + 1, alarms + named
    updates = [
        UpdatedPeer(_moved(labels[:, stream.peers.index(p)], at), *first.get(p, ()))
        for p, at in began.items()
    ]
    return Naming(unchanged, alarms, tuple(updates))


def _moved(labels: FloatArray, began: int) -> float:
    """By how much the rate of being right moved."""
    before, after = labels[:began], labels[began:]
    if np.isnan(before).all() or np.isnan(after).all():
        return 0.0
    return float(abs(np.nanmean(after) - np.nanmean(before)) / 2.0)


def _count(updates: Sequence[UpdatedPeer]) -> str:
    return f"{sum(u.delay is not None for u in updates)} of {len(updates)}"
