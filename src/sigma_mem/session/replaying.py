"""Many lines of a ledger applied at once, bit for bit as one after another.

Lines that are plain (`layout`) are read as arrays, and every sum takes their contributions in order, so that
rounding is the same. Any other line is applied by itself, after those before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from sigma_mem.decide.adaptive import duels
from sigma_mem.events import FloatArray
from sigma_mem.memory import SigmaState
from sigma_mem.memory.competition import READABLE_ASKED, independent, wrong_pairs
from sigma_mem.memory.copies import pair_evidence
from sigma_mem.memory.relation import centred
from sigma_mem.session.fold import Fold
from sigma_mem.session.layout import PlainLines
from sigma_mem.store.columns import read_columns
from sigma_mem.store.rows import PackedLines, Packing

_FEW = 16  # plain lines that are applied one by one: arrays would cost more


def apply_lines(fold: Fold, page: PackedLines) -> None:
    """Take lines into the state, in order."""
    said = _read(fold, page) if _can_be_plain(fold) and len(page.rows) > _FEW else None
    plain = [False] * len(page.rows) if said is None else said.plain.tolist()
    ticks = [] if said is None else said.tick.tolist()
    waiting: list[int] = []  # plain lines that are not applied yet
    decisions: dict[str, int] = {}  # of these, whose feedback was not read yet
    now, due = fold.state.now, _due(fold, said)

    def apply_waiting() -> None:
        if said is not None and len(waiting) > _FEW:
            _apply_plain(fold, page, said, waiting)
        else:
            for place in waiting:
                fold.apply(page.record(place), page.rows[place].seq)
        waiting.clear()
        decisions.clear()

    for place, row in enumerate(page.rows):
        if plain[place]:
            if row.kind == "d":
                if ticks[place] == now + 1.0 < due:
                    waiting.append(place)
                    decisions[row.id] = place
                    now += 1.0
                    continue
            elif decisions.pop(row.event or "", None) is not None:
                waiting.append(place)
                continue
        apply_waiting()
        fold.apply(page.record(place), row.seq)
        now, due = fold.state.now, _due(fold, said)
    unlabelled, end = set(decisions.values()), len(waiting)
    while len(waiting) - end < _FEW and end and waiting[end - 1] in unlabelled:
        end -= 1
    last = waiting[end:]  # their labels may be on the next page, and the fold keeps what it applied at hand
    del waiting[end:]
    apply_waiting()
    for place in last:
        fold.apply(page.record(place), page.rows[place].seq)


def _due(fold: Fold, said: PlainLines | None) -> float:
    """A tick before which no anchor moves; those of the memory over reads do where it is written."""
    return min(fold.state.due, fold.reads.due) if said and said.adaptive.any() else fold.state.due


def _can_be_plain(fold: Fold) -> bool:
    """Whether lines of this memory can be applied at once: nobody left, and events are the decay axis."""
    settings = fold.state.settings
    return settings.decay == "event" and settings.revision > 1 and not fold.departed and not len(fold.pool)


def _read(fold: Fold, page: PackedLines) -> PlainLines:
    """What the plain lines of a page say."""
    peers, rank, reads = fold.state.peers, fold.state.rank, fold.registry.names
    said = PlainLines.nothing(len(page.rows), len(peers), len(reads))
    rows = list(enumerate(page.rows))
    decisions = [x for x in rows if x[1].kind == "d" and x[1].event is None and page.has_phi(x[0], rank)]
    feedback = [x for x in rows if x[1].kind == "f" and x[1].event]
    texts: dict[bytes, int] = {}
    for shape, at, places, bodies in page.packing.by_shape(feedback):
        if shape.tree is not None:
            columns = read_columns(shape, bodies, at, texts)
            said.take_feedback(shape.tree, columns, np.array(places), peers)
    for shape, at, places, bodies in page.packing.by_shape(decisions):
        if shape.tree is not None:
            columns = read_columns(shape, bodies, at, texts)
            strings = {number: text.decode() for text, number in texts.items()}
            name_of = partial(_name, page.packing, strings)
            said.take_decisions(shape.tree, columns, np.array(places), peers, reads, name_of)
    return said


def _name(packing: Packing, strings: Mapping[int, str], number: float) -> str:
    """The string that has this number in the columns."""
    return packing.word(int(number)) if number > 0.0 else strings.get(int(number), "")


def _apply_plain(fold: Fold, page: PackedLines, said: PlainLines, waiting: Sequence[int]) -> None:
    """Apply plain lines."""
    state = fold.state
    kinds = [page.rows[place].kind == "d" for place in waiting]
    decided = np.array([place for place, is_one in zip(waiting, kinds, strict=True) if is_one], dtype=np.intp)
    place_of = {page.rows[place].id: place for place in decided.tolist()}
    labelled = [place for place, is_one in zip(waiting, kinds, strict=True) if not is_one]
    of = np.array([place_of[page.rows[place].event or ""] for place in labelled], dtype=np.intp)
    phis = page.phis(decided.tolist())
    start = state.now
    state.begin_many(len(decided))
    _apply_decisions(fold, said, decided, phis)
    if labelled:
        nows = (start + np.searchsorted(decided, labelled)).tolist()
        phis = phis[np.searchsorted(decided, of)]
        _apply_labels(fold, said, np.array(labelled, dtype=np.intp), of, phis, nows)
    fold.seq = page.rows[waiting[-1]].seq


def _apply_decisions(fold: Fold, said: PlainLines, decided: np.ndarray, phis: FloatArray) -> None:
    state = fold.state
    answered = decided[said.answered[decided]]
    compared = answered[(said.agreement[answered] == said.agreement[answered]).any(axis=1)]
    if state.agreement is not None and len(compared):
        a = said.agreement[compared]
        there = a == a  # NaN differs from itself
        ticks, phis = said.tick[compared].tolist(), phis[np.searchsorted(decided, compared)]
        state.agreement.write_many(phis, np.where(there, a, 0.0), there.astype(np.float64), ticks)
    described = answered[said.described[answered].any(axis=1)]
    if state.agreed_features is not None and len(described):
        agreed = np.where(said.described[described], said.agreement[described], np.nan)
        state.agreed_features.write_many(said.features[described], agreed, said.tick[described].tolist())
    if state.copies is not None and len(answered):
        evidence = pair_evidence(said.groups[answered])
        state.copies.decayed.add_many("pairs", evidence, said.tick[answered].tolist())
    sure = decided[said.sure[decided]]
    state.confidence.count_many(said.confidence[sure], said.tick[sure].tolist())


def _apply_labels(
    fold: Fold, said: PlainLines, lines: np.ndarray, of: np.ndarray, phis: FloatArray, nows: list[float]
) -> None:
    """Write the labels of lines, which are `of` these decisions, to every sum."""
    state, c, ticks = fold.state, said.labels[lines], said.tick[lines].tolist()
    seen = _write_labels(state, phis, c, said.agreement[of], ticks)
    if fold.labelled is not None:
        counts = seen.sum(axis=0).astype(int).tolist()
        fold.labelled.update({peer: n for peer, n in zip(state.peers, counts, strict=True) if n})
    claimed = said.claimed[of]
    if state.mixing is not None and said.claims is not None and claimed.any():
        (rows,) = claimed.nonzero()
        some = [ticks[i] for i in rows.tolist()], [nows[i] for i in rows.tolist()]
        state.mixing.write_many(said.claims[of[rows]], c[rows], seen[rows], *some)
    _apply_answers(fold, said, c, seen, lines, of, phis)


def _apply_answers(
    fold: Fold,
    said: PlainLines,
    c: FloatArray,
    seen: FloatArray,
    lines: np.ndarray,
    of: np.ndarray,
    phis: FloatArray,
) -> None:
    """Write what labels say of answers: how they can be read, who is wrong together, texts, confidence."""
    state = fold.state
    (rows,) = said.answered[of].nonzero()
    if not len(rows):
        return
    events, c, seen, ticks = of[rows], c[rows], seen[rows], said.tick[lines[rows]]
    groups = said.groups[events]
    readable = (groups[:, None] >= READABLE_ASKED) * seen[:, None]
    state.readability.decayed.add_many("counts", readable, ticks.tolist())
    same, pairs = independent(*wrong_pairs(c, groups))
    (wrong,) = (pairs > 0.0).nonzero()
    state.wrong_answers.write_many(
        phis[rows[wrong]], same[wrong, None], pairs[wrong, None], ticks[wrong].tolist()
    )
    (texts,) = said.described[events].any(axis=1).nonzero()
    if len(texts):
        residuals = c[texts] - 2.0 * said.probs[events[texts]] + 1.0
        residuals[~said.described[events[texts]]] = np.nan
        state.features.write_many(said.features[events[texts]], residuals, ticks[texts].tolist())
    if said.sureness is not None:
        label = _chosen_labels(said, c, groups, said.chosen[events], lines[rows])
        (sure,) = (said.sure[events] & (label == label)).nonzero()
        claims = said.sureness[events[sure]]
        right = 0.5 * (1.0 + label[sure])
        state.confidence.write_many(claims[:, :-1], claims[:, -1], right, ticks[sure].tolist())

    (adaptive,) = said.adaptive[events].nonzero()
    if len(adaptive):
        right = [
            _chosen_labels(said, c[adaptive], groups[adaptive], chosen, lines[rows[adaptive]])
            for chosen in said.choices[events[adaptive]].T
        ]
        labels = duels(np.column_stack(right))
        none = np.full(labels.shape, np.nan)
        _write_labels(fold.reads, phis[rows[adaptive]], labels, none, ticks[adaptive].tolist())


def _write_labels(
    state: SigmaState, phis: FloatArray, c: FloatArray, agreement: FloatArray, ticks: list[float]
) -> FloatArray:
    """Write labels to what needs nothing but these; return 1 where there is one, and 0 elsewhere."""
    there = c == c  # NaN differs from itself
    label, seen = np.where(there, c, 0.0), np.where(there, 1.0, 0.0)
    state.relation.write_many(_centred_rows(c, there), ticks)
    state.competence.write_many(phis, label, seen, ticks)
    n, (some,) = seen.sum(axis=1), there.any(axis=1).nonzero()
    if len(some):
        at = [ticks[i] for i in some.tolist()]
        state.horizons.write_many(label[some], seen[some], agreement[some], n[some], at)
    return seen


def _chosen_labels(
    said: PlainLines, c: FloatArray, groups: np.ndarray, chosen: np.ndarray, lines: np.ndarray
) -> FloatArray:
    """How right the chosen answers were: their labels, or those of peers that gave the same; NaN for none."""
    out: FloatArray = np.where(chosen < 0, np.nan, c[np.arange(len(c)), chosen])
    for i in ((out != out) & (chosen >= 0)).nonzero()[0].tolist():
        group = groups[i, chosen[i]]
        if group >= 0:
            same = (c[i, peer] for peer in said.order[int(lines[i])] if groups[i, peer] == group)
            out[i] = next(same, np.nan)
    return out


def _centred_rows(c: FloatArray, there: np.ndarray) -> FloatArray:
    """q of every row, bit for bit as of one event."""
    whole = there.all(axis=1) & (c.shape[1] > 1)
    out = np.zeros(c.shape)
    out[whole] = c[whole] - np.add.reduce(c[whole], axis=1, keepdims=True) / c.shape[1]
    for i in (~whole).nonzero()[0].tolist():
        out[i] = centred(c[i])
    return out
