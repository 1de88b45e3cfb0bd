"""Accuracy against feedback: 5 % … 100 % of events labelled, over seeds (fig:feedback_availability)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sigma_mem.bench.league import Say, row_of
from sigma_mem.bench.replayed import replayed
from sigma_mem.events import FloatArray
from sigma_mem.memory import Settings
from sigma_mem.streams import Share, Stream

__all__ = ["SHARES", "FeedbackTable", "feedback_table"]

SHARES = (0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0)
SHOWN = ("adaptive", "calibrated-vote", "m-vote", "calibrated-route", "m-route", "majority")


@dataclass(frozen=True, slots=True)
class FeedbackTable:
    """Accuracy of every mechanism at every share of labelled events, one value per seed."""

    stream: str
    peers: tuple[str, ...]
    events: int
    seeds: tuple[int, ...]
    accuracy: Mapping[float, Mapping[str, tuple[float, ...]]]

    def values(self) -> dict[str, Any]:
        """The object that ``bench feedback --json`` prints."""
        return {
            "stream": self.stream,
            "events": self.events,
            "peers": list(self.peers),
            "seeds": list(self.seeds),
            "shares": {
                f"{share:g}": {
                    name: {
                        "accuracy": round(float(np.mean(found)), 6),
                        "lowest": round(min(found), 6),
                        "highest": round(max(found), 6),
                    }
                    for name, found in rows.items()
                }
                for share, rows in self.accuracy.items()
            },
        }


def feedback_table(
    stream: Stream,
    phis: FloatArray,
    shares: Sequence[float] = SHARES,
    seeds: Sequence[int] = (0, 1, 2),
    settings: Settings | None = None,
    *,
    say: Say | None = None,
) -> FeedbackTable:
    """Play the stream with the labels of a share of its events; unlabelled events still decay.

    The masks are nested: the events labelled at 5 % are labelled at 10 % too (`streams.Share`).
    """
    labels = stream.labels()
    accuracy: dict[float, dict[str, tuple[float, ...]]] = {}
    runs, done = len(shares) * len(seeds), 0
    for share in shares:
        found: dict[str, list[float]] = {name: [] for name in SHOWN}
        for seed in seeds:
            reveal = Share(share, seed)
            shown = np.array(
                [bool(reveal.reveal(t, event, stream.peers[0])) for t, event in enumerate(stream)], dtype=bool
            )
            choices = replayed(stream, phis, settings, shown)
            for name in SHOWN:
                found[name].append(row_of(choices[name], labels, stream.peers).accuracy)
            done += 1
            if say is not None:
                say(f"{share:.0%} of labels", done, runs)
        accuracy[share] = {name: tuple(values) for name, values in found.items()}
    return FeedbackTable(stream.name, stream.peers, len(stream), tuple(seeds), accuracy)
