"""The memory's choices on a stream whose labels all come on time, from the chunked replay.

The reads are the same functions that a session calls; only the state is computed in chunks. What
the adaptive read chooses does not change what any read chooses, so the memory over reads is a second
replay, whose labels are the reads' own successes. Equal to `play` with a `MemoryPlayer` event by event.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from sigma_mem.answers.features import FEATURES as SIGNS
from sigma_mem.answers.features import text_features as signs
from sigma_mem.bench.progressive import Choices
from sigma_mem.decide import READS, Reads, View
from sigma_mem.decide.adaptive import adaptive, duels, settings_over_reads
from sigma_mem.decide.vote import group_answers
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
    reads: Reads = READS,
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
    groups = np.where(asked, [group_answers(row) for row in stream.canons()], -2)  # −2: nobody was asked
    past = replay(phis, labels, settings, groups, features=_signs(stream) if settings.text_features else None)
    made = [read for read in reads if read.needs != "center"]
    chosen = np.zeros((len(stream), len(made)), dtype=np.intp)
    for t in range(len(stream)):
        view = View(
            score=past.score[t],
            prob=past.prob[t],
            text_log_odds=past.text_log_odds[t],
            groups=groups[t],
            alternatives=float(past.alternatives[t]),
            readable=past.readable[t],
            relation=partial(past.G.__getitem__, t),
        )
        chosen[t] = [read.choose(view).peer for read in made]
        if progress is not None and (t % 256 == 255 or t + 1 == len(stream)):
            progress(t + 1, len(stream))
    places = [reads.names.index(read.name) for read in made]
    of_reads = np.full((len(stream), len(reads)), np.nan)
    # A read was as right as the peer it chose.
    of_reads[:, places] = labels[np.arange(len(stream))[:, None], chosen]
    prob = replay(phis, duels(of_reads), settings_over_reads(settings)).prob
    best = np.array([places.index(adaptive(p, places)) for p in prob], dtype=np.intp)
    out: Choices = {"adaptive": chosen[np.arange(len(stream)), best]}
    out.update({read.name: chosen[:, i] for i, read in enumerate(made)})
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
