"""The memory's choices on a stream whose labels all come on time, from its state alone.

State and reads are the same functions that a session calls; there is no ledger. What the adaptive read
chooses does not change what any read chooses, so the memory over reads is a second
replay, whose labels are the reads' own successes. Equal to `play` with a `MemoryPlayer` event by event.
"""

from collections.abc import Callable
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from sigma_lab.bench.play import Choices, choose_present
from sigma_lab.bench.row import present_peers
from sigma_lab.replay import replay
from sigma_mem.answers.features import FEATURES, text_features
from sigma_mem.decide import READS, Reads, View
from sigma_mem.decide.adaptive import adaptive, duels, settings_over_reads
from sigma_mem.decide.read import NOBODY
from sigma_mem.decide.vote import group_answers
from sigma_mem.events import Answer, FloatArray
from sigma_mem.memory import Settings
from sigma_mem.streams import Stream


def replayed(
    stream: Stream,
    phis: FloatArray,
    settings: Settings | None = None,
    shown: NDArray[np.bool_] | None = None,
    progress: Callable[[int, int], None] | None = None,
    reads: Reads = READS,
) -> Choices:
    """What every read, and the adaptive one, chooses at every event, with φ as (T, rank).

    Events that are not ``shown``, (T,), reveal no label and only decay. ``progress`` is told (done, total).
    """
    settings = settings or Settings()
    labels = stream.labels()
    if shown is not None:
        labels[~shown] = np.nan
    asked = [[peer in event.answers for peer in stream.peers] for event in stream]
    groups = np.where(asked, [group_answers(row) for row in stream.canons()], -2)  # −2: nobody was asked
    silent = _silent(stream)
    features = _features(stream) if settings.text_features else None
    topics = [event.topics for event in stream]
    past = replay(phis, labels, settings, groups, features=features, topics=topics if any(topics) else None)
    available = [i for i, read in enumerate(reads) if read.needs != "center"]
    used = [read for read in reads if read.needs != "center"]
    first = np.zeros((len(stream), len(used)), dtype=np.intp)  # among all peers: what the memory learns from
    chosen = np.zeros_like(first)  # among those present
    for t, present in enumerate(present_peers(stream)):
        view = View(
            score=past.score[t],
            prob=past.prob[t],
            text_log_odds=past.text_log_odds[t],
            groups=np.where(silent[t], -2, groups[t]),
            alternatives=float(past.alternatives[t]),
            readable=past.readable[t],
            relation=partial(past.G.__getitem__, t),
            labelled=float(past.labelled[t]),
            votes=past.votes[t],
        )
        first[t] = [read.choose(view).peer for read in used]
        chosen[t] = [
            choose_present(read, peer, view.score, view.prob, present)
            for read, peer in zip(used, first[t].tolist(), strict=True)
        ]
        if progress is not None and (t % 256 == 255 or t + 1 == len(stream)):
            progress(t + 1, len(stream))
    events = np.arange(len(stream))
    of_reads = np.full((len(stream), len(reads)), np.nan)  # without a center, its reads are not labelled
    of_answers = _answer_labels(labels, groups)[events[:, None], first]
    of_reads[:, available] = np.where(first == NOBODY, np.nan, of_answers)
    prob = replay(phis, duels(of_reads), settings_over_reads(settings)).prob
    best = [available.index(adaptive(p, available)) for p in prob]
    by_read = {read.name: chosen[:, i] for i, read in enumerate(used)}
    readable = (groups >= 0).any(axis=1)
    return {"adaptive": np.where(readable, chosen[events, best], NOBODY), **by_read}


def _silent(stream: Stream) -> NDArray[np.bool_]:
    """Who gave no answer, (T, P)."""
    nothing = Answer("", None)
    return np.array([[event.answers.get(p, nothing) == nothing for p in stream.peers] for event in stream])


def _answer_labels(labels: FloatArray, groups: NDArray[np.intp]) -> FloatArray:
    """Labels, a missing one taken from the first labelled peer that gave the same answer, if there is one."""
    out = labels.copy()
    for t, peer in np.argwhere(np.isnan(labels) & (groups >= 0)):
        same = labels[t, groups[t] == groups[t, peer]]
        out[t, peer] = next((c for c in same if not np.isnan(c)), np.nan)
    return out


def _features(stream: Stream) -> FloatArray:
    """Text features of every answer, (T, P, features); 0 where there is none."""
    out = np.zeros((len(stream), len(stream.peers), len(FEATURES)))
    for row, event in zip(out, stream, strict=True):
        given = {i: event.answers[peer] for i, peer in enumerate(stream.peers) if peer in event.answers}
        found = _features_of(
            event.question, tuple(sorted(given.values(), key=lambda a: (a.text, a.canon or "")))
        )
        row[list(given)] = [found[answer] for answer in given.values()]
    return out


@lru_cache(maxsize=1 << 14)
def _features_of(question: str, answers: tuple[Answer, ...]) -> dict[Answer, FloatArray]:
    """Kept, because an attack hands the same answers to other peers."""
    return dict(zip(answers, text_features(question, answers), strict=True))
