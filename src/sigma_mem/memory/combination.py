"""The labels of several sources on one event as one label per peer, and what that shows about the sources.

The `Standing` of a source that is not trusted is what it is worth when it gives a label; its line records it.
An event's labels then follow from its lines alone, in whatever order they came and whichever of them were
revoked; and so does what the event contributes to the sums from which a later standing is taken.
"""

from collections.abc import Mapping
from typing import NamedTuple

_BESIDE = 0.1  # of the weight of all others together, if a trusted source labelled the same peer
COLUMNS = 7  # n, Σa, Σb, Σa², Σb², Σab of labels that both gave, and events

Labels = Mapping[str, float]  # peer → c
Key = tuple[str, str, str]  # "trusted" or "first" or "agreement", source, "" · "pair", source, source · ALONE
ALONE: Key = ("alone", "", "")  # events with labels of peers that no trusted source labelled

_NONE: Labels = {}


class Standing(NamedTuple):
    """What is known of a source that is not trusted when it labels an event.

    Attributes
    ----------
    weight : what it weighs if no other source gives a label
    reliability : correlation with the agreement of peers; None if trusted sources are named
    overlap : its correlation with each of those that spoke of the event before
    told : whether a trusted source had labelled the event before, so that it could repeat those labels
    """

    weight: float
    reliability: float | None = None
    overlap: Labels = _NONE
    told: bool = False


class Comparison(NamedTuple):
    """What an event shows about its sources: labels compared, and evidence that no trusted one can check."""

    rows: Mapping[Key, tuple[float, ...]]
    alone: float


NO_COMPARISON = Comparison({}, 0.0)


def combined(said: Mapping[str, Labels], standings: Mapping[str, Standing]) -> tuple[Labels, Labels]:
    """Label of every peer, and how much evidence it is, in [0, 1]; no weights if all are 1.

    Sources without a standing are trusted and weigh 1.

    >>> combined({"ci": {"a": 1.0}, "x": {"a": -1.0, "b": -1.0}}, {"x": Standing(0.0625)})
    ({'a': 0.98..., 'b': -1.0}, {'a': 1.0, 'b': 0.0625})
    """
    shares = _shares({source: standings[source] for source in said if source in standings})
    sums: dict[str, list[float]] = {}  # peer → n and Σc of trusted sources, Σw and Σwc of the others
    for source, labels in said.items():
        share = shares.get(source)
        for peer, c in labels.items():
            of = sums.setdefault(peer, [0.0, 0.0, 0.0, 0.0])
            if share is None:
                of[0] += 1.0
                of[1] += c
            else:
                of[2] += share
                of[3] += share * c
    c_of, weight_of = {}, {}
    for peer, (n, total, weight, other) in sums.items():
        if n:
            share = _BESIDE / max(weight, 1.0)
            other, weight = share * other, share * weight
        c_of[peer] = min(1.0, max(-1.0, (total + other) / (n + weight)))
        weight_of[peer] = min(1.0, n + weight)
    return c_of, weight_of if min(weight_of.values(), default=1.0) < 1.0 else _NONE


def _shares(standings: Mapping[str, Standing]) -> dict[str, float]:
    """What each of the sources that are not trusted weighs on an event that all of these labelled."""
    if len(standings) <= 1:
        return {source: standing.weight for source, standing in standings.items()}
    best = max(standing.reliability or 0.0 for standing in standings.values())
    if not best:  # trusted ones are named: unknown names share one weight, and take little from a better one
        total = sum(standing.weight for standing in standings.values())
        return {source: standing.weight**2 / total for source, standing in standings.items()}
    same = dict.fromkeys(standings, 1.0)  # how many gave the same label as each; those weigh as one
    for source, standing in standings.items():
        for other, c in standing.overlap.items():
            if other in same:
                same[source] += c
                same[other] += c
    return {
        source: standing.weight * ((standing.reliability or 0.0) / best) ** 2 / same[source]
        for source, standing in standings.items()
    }


def comparisons(
    said: Mapping[str, Labels],
    first: Mapping[str, Labels],
    standings: Mapping[str, Standing],
    agreement: Labels,
    of: str,
) -> Comparison:
    """What an event contributes to the sums, as far as it depends on the labels of the source `of`.

    Sources are compared with the mean of the trusted ones if there are any: all their labels, and those they
    gave `first`, before any trusted source, which cannot be repetitions. Among themselves, and with the
    agreement of peers, they are compared if two or more of them gave labels and no trusted ones are named.
    """
    others = [source for source in said if source in standings]
    if not others or (len(said) == 1 and standings[others[0]].reliability is not None):
        return NO_COMPARISON
    rows: dict[Key, tuple[float, ...]] = {}
    alone = 0.0
    trusted, _ = combined({source: x for source, x in said.items() if source not in standings}, {})
    if trusted:
        for source in others:
            rows["trusted", source, ""] = _products(said[source], trusted)
            rows["first", source, ""] = _products(first.get(source, _NONE), trusted)
    named = standings[others[0]].reliability is None
    if named and any(peer not in trusted for source in others for peer in said[source]):
        rows[ALONE] = (*[0.0] * (COLUMNS - 1), 1.0)
        alone = min(1.0, sum(_shares({source: standings[source] for source in others}).values()))
    if len(others) > 1 and not named:
        for source in others:
            rows["agreement", source, ""] = _products(said[source], agreement)
            if of in standings and of in said and source != of:
                a, b = sorted((of, source))
                rows["pair", a, b] = _products(said[a], said[b])
    return Comparison({key: row for key, row in rows.items() if row[-1]}, alone)


def _products(a: Labels, b: Labels) -> tuple[float, ...]:
    """n, Σa, Σb, Σa², Σb², Σab over labels that both gave, and 1 if there are any."""
    both = [(x, b[peer]) for peer, x in a.items() if peer in b]
    sums = [sum(column) for column in zip(*((x, y, x * x, y * y, x * y) for x, y in both), strict=True)]
    return (float(len(both)), *sums, 1.0) if both else (0.0,) * COLUMNS
