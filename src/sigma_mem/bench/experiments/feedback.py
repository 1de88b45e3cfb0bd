"""Accuracy against feedback: 5 % … 100 % of events labelled, over seeds (fig:feedback_availability)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sigma_mem.bench.center import BenchCenter, JudgedEvents
from sigma_mem.bench.league import Say, row_of
from sigma_mem.bench.replayed import replayed
from sigma_mem.events import FloatArray
from sigma_mem.memory import Settings
from sigma_mem.streams import Share, Stream

__all__ = ["SHARES", "FeedbackTable", "feedback_table"]

SHARES = (0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0)
SHOWN = ("adaptive", "calibrated-vote", "m-vote", "calibrated-route", "m-route", "majority")
JUDGED = ("base", "sigma")  # the rows of a center that the figure shows


@dataclass(frozen=True, slots=True)
class FeedbackTable:
    """Accuracy of every mechanism at every share of labelled events, one value per seed."""

    stream: str
    peers: tuple[str, ...]
    events: int
    seeds: tuple[int, ...]
    accuracy: Mapping[float, Mapping[str, tuple[float, ...]]]
    judged: JudgedEvents | None = None  # by a center; then all rows are about these events

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
            **({} if self.judged is None else {"center": self.judged.values()}),
        }


def feedback_table(
    stream: Stream,
    phis: FloatArray,
    shares: Sequence[float] = SHARES,
    seeds: Sequence[int] = (0, 1, 2),
    settings: Settings | None = None,
    *,
    center: BenchCenter | None = None,
    say: Say | None = None,
) -> FeedbackTable:
    """Play the stream with the labels of a share of its events; unlabelled events still decay.

    The masks are nested: the events labelled at 5 % are labelled at 10 % too (`streams.Share`).
    """
    labels = stream.labels()
    about = None if center is None else center.judged(stream)
    places = range(len(stream)) if center is None else center.places(stream)
    accuracy: dict[float, dict[str, tuple[float, ...]]] = {}
    runs, done = len(shares) * len(seeds), 0
    for share in shares:
        found: dict[str, list[float]] = {}
        for seed in seeds:
            reveal = Share(share, seed)
            shown = np.array(
                [bool(reveal.reveal(t, event, stream.peers[0])) for t, event in enumerate(stream)], dtype=bool
            )
            choices = replayed(stream, phis, settings, shown)
            rows = {name: row_of(choices[name], labels, stream.peers).at(places) for name in SHOWN}
            if center is not None:
                rows.update(center.judge(stream, shown=shown, rows=JUDGED))
            for name, row in rows.items():
                found.setdefault(name, []).append(row.accuracy)
            done += 1
            if say is not None:
                say(f"{share:.0%} of labels", done, runs)
        accuracy[share] = {name: tuple(values) for name, values in found.items()}
    return FeedbackTable(stream.name, stream.peers, len(places), tuple(seeds), accuracy, about)
