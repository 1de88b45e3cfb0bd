"""Rows of the paper's tables that need a center: the judge with and without memory, and its controls.

| row | utility of peer p | selection |
|---|---|---|
| base | U_p of the unsteered judge | highest U |
| sigma-no-g | U_p steered by M_pφ | highest U |
| sigma | U_p steered by M_pφ | posterior with G |
| fast | base U_p + wᵀM_pφ | posterior with G |
| zero-M | base U_p (a memory of zeros steers nothing) | posterior with G |
| swapped-M | U_p steered by the next peer's M φ | posterior with G |
| m-route-learned | φᵀM_pφ on the checkpoint's φ: the memory without a judge | highest score |

The memory is written from every event of the stream, in order and with full feedback unless a mask hides
some; the center, which is what costs time, may judge a part of them only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from sigma_mem.bench.row import TableRow as Row
from sigma_mem.decide.posterior import normalized_utility, posterior
from sigma_mem.errors import InputError
from sigma_mem.events import FloatArray
from sigma_mem.memory import Settings, SigmaState
from sigma_mem.streams import Stream
from sigma_mem.streams.stream import chance

__all__ = ["ROWS", "Scorer", "center_rows", "judged_events"]

ROWS = ("base", "sigma-no-g", "sigma", "fast", "zero-M", "swapped-M", "m-route-learned")

# (question, answer) pairs and one readout each, or None for the base judge → utilities.
Scorer = Callable[[Sequence[tuple[str, str]], FloatArray | None], FloatArray]


def judged_events(stream: Stream, *, after: int = 0, limit: int | None = None, seed: int = 0) -> list[int]:
    """Places of the events that the center judges, in order: all from ``after`` on, or a sample of them.

    The draw depends on the seed and the event's id only: the same events at every attack ratio, and a
    larger limit keeps those of a smaller one.
    """
    places = range(min(after, len(stream)), len(stream))
    if limit is None or limit >= len(places):
        return list(places)
    ranked = sorted(places, key=lambda i: chance(seed, "judged", stream.events[i].id))
    return sorted(ranked[:limit])


def center_rows(
    stream: Stream,
    phis: FloatArray,
    judged: Sequence[int],
    scorer: Scorer,
    *,
    fast: FloatArray | None,
    settings: Settings | None = None,
    w_u: float = 1.0,
    w_g: float = 1.0,
    bases: dict[tuple[str, str], float] | None = None,
    rows: Sequence[str] = ROWS,
    shown: NDArray[np.bool_] | None = None,
) -> dict[str, Row]:
    """Judge some events of a stream, as it stands under attack, with and without memory.

    Parameters
    ----------
    phis : (T, rank)
        φ of every event, by the encoder that the steering was learned with.
    judged
        Places of the events to judge; see `judged_events`.
    scorer
        ``lambda pairs, readouts: center.judge_pairs(pairs, readouts).utility``, or one spread over a cluster.
    fast : (rank,)
        w of the fast read; None leaves that row out.
    bases
        Base utilities by (question, answer), filled as they are needed: the same at every attack ratio.
    rows
        Which rows to compute.
    shown : bool array (T,)
        Events whose labels the memory is told, all by default; the others only decay. The grading knows all.

    Returns
    -------
    mapping of row name to Row
        What was chosen at every judged event, and whether it was right.
    """
    unknown = [name for name in rows if name not in ROWS]
    if unknown:
        raise InputError(f"no row {unknown[0]!r}; expected among {', '.join(ROWS)}")
    wanted = [name for name in rows if name != "fast" or fast is not None]
    readouts, relations, labels = _memory(stream, phis, judged, settings or Settings(), shown)
    pairs = [_pairs(stream, place) for place in judged]
    flat = [pair for event in pairs for pair in event]
    n, p = len(judged), len(stream.peers)
    utilities: dict[str, FloatArray] = {}
    if {"base", "zero-M", "fast"} & set(wanted):
        utilities["base"] = utilities["zero-M"] = _base(flat, scorer, bases).reshape(n, p)
    if fast is not None and "fast" in wanted:
        utilities["fast"] = utilities["base"] + readouts @ fast
    if {"sigma", "sigma-no-g"} & set(wanted):
        steered = scorer(flat, readouts.reshape(n * p, -1)).reshape(n, p)
        utilities["sigma"] = utilities["sigma-no-g"] = steered
    if "swapped-M" in wanted:
        swapped = np.roll(readouts, 1, axis=1)
        utilities["swapped-M"] = scorer(flat, swapped.reshape(n * p, -1)).reshape(n, p)
    if "m-route-learned" in wanted:
        utilities["m-route-learned"] = np.einsum(
            "npr,nr->np", readouts, phis[list(judged)]
        )  # eq:direct_m_score
    out = {}
    for name in wanted:
        relation = None if name in ("base", "sigma-no-g", "m-route-learned") else relations
        chosen = _selected(utilities[name], relation, w_u, w_g)
        out[name] = _row(chosen, labels, stream.peers)
    return out


def _memory(
    stream: Stream,
    phis: FloatArray,
    judged: Sequence[int],
    settings: Settings,
    shown: NDArray[np.bool_] | None = None,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Readouts (n, P, rank), relations (n, P, P) just before the judged events, and their labels (n, P)."""
    if len(phis) != len(stream):
        raise InputError(f"got φ of {len(phis)} events for a stream of {len(stream)}; expected one each")
    state = SigmaState(stream.peers, phis.shape[1], settings)
    labels, wanted = stream.labels(), set(judged)
    told = labels if shown is None else np.where(shown[:, None], labels, np.nan)
    readouts, relations = [], []
    for place, (phi, c) in enumerate(zip(phis, told, strict=True)):
        if place in wanted:
            readouts.append(state.readout(phi))
            relations.append(state.G)
        state.write(phi, c, state.begin_event())
    shape = (len(judged), len(stream.peers))
    return (
        np.array(readouts).reshape(*shape, phis.shape[1]),
        np.array(relations).reshape(*shape, shape[1]),
        labels[list(judged)],
    )


def _pairs(stream: Stream, place: int) -> list[tuple[str, str]]:
    event = stream.events[place]
    missing = [peer for peer in stream.peers if peer not in event.answers]
    if missing:
        raise InputError(
            f"event {event.id!r} has no answer of {missing[0]!r}; expected answers of all chosen peers"
        )
    return [(event.question, event.answers[peer].text) for peer in stream.peers]


def _base(
    pairs: Sequence[tuple[str, str]], scorer: Scorer, known: dict[tuple[str, str], float] | None
) -> FloatArray:
    known = {} if known is None else known
    missing = [pair for pair in dict.fromkeys(pairs) if pair not in known]
    if missing:
        known.update(zip(missing, scorer(missing, None).tolist(), strict=True))
    return np.array([known[pair] for pair in pairs])


def _selected(utility: FloatArray, relations: FloatArray | None, w_u: float, w_g: float) -> NDArray[np.intp]:
    if relations is None:
        highest: NDArray[np.intp] = utility.argmax(axis=1)
        return highest
    z = normalized_utility(utility)
    return np.array([posterior(row, G, w_u, w_g).peer for row, G in zip(z, relations, strict=True)])


def _row(chosen: NDArray[np.intp], labels: FloatArray, peers: Sequence[str]) -> Row:
    right = (labels[np.arange(len(chosen)), chosen] > 0).astype(np.float64)
    counts = np.bincount(chosen, minlength=len(peers)).tolist()
    return Row(chosen, right, dict(zip(peers, counts, strict=True)))
