"""The memory's choices on a stream whose labels all come on time, from the chunked replay.

The reads are the same functions that a session calls; only the state is computed in chunks. What
the adaptive read chooses does not change what any read chooses, so the memory over reads is a second
replay, whose labels are the reads' own successes. Equal to `play` with a `MemoryPlayer` event by event.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sigma_mem.answers.features import FEATURES as SIGNS
from sigma_mem.answers.features import text_features as signs
from sigma_mem.bench.progressive import Choices
from sigma_mem.decide.adaptive import adaptive, duels, over_reads
from sigma_mem.decide.reads import READS, ROUTES, VOTES, View, choose
from sigma_mem.decide.vote import group
from sigma_mem.errors import InputError
from sigma_mem.events import Answer, FloatArray
from sigma_mem.memory import Settings, replay
from sigma_mem.streams import Stream

__all__ = ["can_replay", "replayed"]


def can_replay(stream: Stream) -> bool:
    """Whether every peer of every event has a label: then order alone decides what a memory knows."""
    return not bool(np.isnan(stream.labels()).any())


def replayed(
    stream: Stream,
    phis: FloatArray,
    settings: Settings | None = None,
    shown: NDArray[np.bool_] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Choices:
    """What every read, and the adaptive one, chooses at every event.

    Parameters
    ----------
    phis : array (T, rank)
    shown : bool array (T,), optional
        Events whose labels are revealed, on time and all of them; the others only decay.
    progress : callable of (done, total)
    """
    labels = stream.labels()
    if np.isnan(labels).any():
        raise InputError("some peers of the stream have no label; play it through a session instead")
    if shown is not None:
        labels[~shown] = np.nan
    settings = settings or Settings()
    asked = [[peer in event.answers for peer in stream.peers] for event in stream]
    groups = np.where(asked, [group(row) for row in stream.canons()], -2)  # −2: nobody was asked
    past = replay(phis, labels, settings, groups, signs=_signs(stream) if settings.signs else None)
    names = (*VOTES, *ROUTES)
    chosen = np.zeros((len(stream), len(names)), dtype=np.intp)
    for t in range(len(stream)):
        view = View(
            score=past.score[t],
            prob=past.prob[t],
            lean=past.lean[t],
            groups=groups[t],
            alternatives=float(past.alternatives[t]),
            readable=past.readable[t],
            G=past.G[t],
        )
        chosen[t] = [choose(read, view).peer for read in names]
        if progress is not None and (t % 256 == 255 or t + 1 == len(stream)):
            progress(t + 1, len(stream))
    out: Choices = {"adaptive": _adaptive(phis, chosen, labels, settings)}
    out.update({name: chosen[:, i] for i, name in enumerate(names)})
    return out


def _signs(stream: Stream) -> FloatArray:
    """Signs of every answer, (T, P, S)."""
    out = np.zeros((len(stream), len(stream.peers), len(SIGNS)))
    for row, event in zip(out, stream, strict=True):
        given = {i: event.answers[peer] for i, peer in enumerate(stream.peers) if peer in event.answers}
        found = _signs_of(event.question, tuple(sorted(given.values(), key=_by_text)))
        row[list(given)] = [found[answer] for answer in given.values()]
    return out


@lru_cache(maxsize=1 << 14)
def _signs_of(question: str, answers: tuple[Answer, ...]) -> dict[Answer, FloatArray]:
    """Kept, because an attack hands the same answers to other peers."""
    return dict(zip(answers, signs(question, answers), strict=True))


def _by_text(answer: Answer) -> tuple[str, str]:
    return answer.text, answer.canon or ""


def _adaptive(
    phis: FloatArray, chosen: NDArray[np.intp], labels: FloatArray, settings: Settings
) -> NDArray[np.intp]:
    rows = np.arange(len(chosen))
    # A read was as right as the peer it chose; `select` takes no part without a center.
    of_reads = np.full((len(chosen), len(READS)), np.nan)
    of_reads[:, : chosen.shape[1]] = labels[rows[:, None], chosen]
    prob = replay(phis, duels(of_reads), over_reads(settings)).prob
    available = list(range(chosen.shape[1]))
    best = np.array([adaptive(p, available) for p in prob], dtype=np.intp)
    return np.asarray(chosen[rows, best], dtype=np.intp)
