"""Accuracy against feedback: 0 % … 100 % of events labelled, over masks (fig:feedback_availability)."""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from sigma_lab.bench.center import NO_SIGMA, BenchCenter, merged
from sigma_lab.bench.league import DEFAULT, MAJORITY, ORACLES, Setup, in_processes, league
from sigma_lab.bench.row import Interval, TableRow, intervals
from sigma_lab.bench.table import Table, about, about_center, difference_text, difference_values, rounded
from sigma_lab.reveal import Share, shown_events
from sigma_mem.events import FloatArray
from sigma_mem.streams import Stream

SHARES = (0.0, 0.005, 0.01, 0.02, 0.05, 0.1, 1.0)
COMPARED = (("adaptive", MAJORITY), ("calibrated-route", "leader"))

Masks = Mapping[str, Sequence[TableRow]]  # rows of a mechanism, one per mask


def feedback_table(
    stream: Stream,
    phis: FloatArray,
    shares: Sequence[float] = SHARES,
    seeds: Sequence[int] = (0, 1, 2),
    setup: Setup = DEFAULT,
    center: BenchCenter | None = None,
) -> Table:
    """Play the stream with the labels of a share of its events; unlabelled events still decay.

    The masks are nested: the events labelled at 5 % are labelled at 10 % too (`reveal.Share`).
    """
    rows = masked_rows(stream, phis, shares, seeds, setup, center)
    accuracy = {
        share: {name: [row.accuracy for row in found] for name, found in masks.items()}
        for share, masks in rows.items()
    }
    first = next(iter(accuracy.values()))
    judged = None if center is None else center.judged(stream)
    parts = {f"{100 * share:g}% labelled": _above_sigma(found) for share, found in accuracy.items()}
    of_center, center_remarks = about_center(judged, parts)
    results = {
        "seeds": list(seeds),
        "shares": {f"{share:g}": _values(found) for share, found in accuracy.items()},
        "comparisons": {f"{share:g}": compared_values(rows, share) for share in rows},
    }
    remarks = ["Paired 95 % intervals, masks pooled; a majority's ties are counted in expectation:"]
    remarks += [f"- {100 * share:g}% labelled: {'; '.join(_standings(rows, share))}." for share in rows]
    return Table(
        title=f"Feedback availability: {stream.name}",
        values={**about(stream, judged), **results, **of_center},
        header=["mechanism, % right", *(f"{100 * share:g}% labelled" for share in accuracy)],
        rows=[[name, *(_cell(found[name]) for found in accuracy.values())] for name in first],
        remarks=[*remarks, *center_remarks],
    )


def masked_rows(
    stream: Stream,
    phis: FloatArray,
    shares: Sequence[float],
    seeds: Sequence[int],
    setup: Setup = DEFAULT,
    center: BenchCenter | None = None,
) -> dict[float, dict[str, list[TableRow]]]:
    """Rows of every mechanism at every share of labelled events, one per mask."""
    places = range(len(stream)) if center is None else center.places(stream)
    before = None if setup.warm is None else setup.warm[0]
    masks = {(share, seed): Share(share, seed) for share, seed in product(shares, seeds)}
    shown = {mask: shown_events(stream, reveal) for mask, reveal in masks.items()}
    once = {events.tobytes(): mask for mask, events in shown.items()}  # at 0 % and 100 % all masks are one

    def played(mask: tuple[float, int]) -> dict[str, TableRow]:
        rows = league(stream, phis, setup.part(f"{100 * mask[0]:g}% of labels"), masks[mask])
        return {name: row for name, row in rows.items() if name not in ORACLES}

    found = dict(zip(once, in_processes(played, list(once.values()), setup.processes), strict=True))
    if center is not None:
        for key, mask in once.items():
            names = ("base", "sigma")
            judged = center.judge(stream, warm=before, shown=shown[mask], rows=names)
            found[key] = merged(found[key], judged, places)
    out: dict[float, dict[str, list[TableRow]]] = {}
    for (share, _), events in shown.items():
        for name, row in found[events.tobytes()].items():
            out.setdefault(share, {}).setdefault(name, []).append(row)
    return out


def paired_with_reference(masks: Masks) -> dict[str, Interval]:
    """`adaptive` against fair majority, and the route against following the leader, by their names.

    The masks are pooled: an event counts with its mean over them.
    """
    correct = {name: np.mean([row.correct for row in found], axis=0) for name, found in masks.items()}
    return {
        f"{name} − {other}": intervals({name: correct[name], other: correct[other]}, other)[name]
        for name, other in COMPARED
        if other in correct
    }


def gain_kept(rows: Mapping[float, Masks], share: float) -> float | None:
    """Which share of what full labels gain over fair majority `adaptive` keeps; None without a gain."""
    if MAJORITY not in rows[share] or 1.0 not in rows:
        return None
    gain, full = (_mean(rows[at]["adaptive"]) - _mean(rows[at][MAJORITY]) for at in (share, 1.0))
    return gain / full if full > 0.0 else None


def compared_values(rows: Mapping[float, Masks], share: float) -> dict[str, Any]:
    """The comparisons at a share, as plain values."""
    found: dict[str, Any] = {
        name: {**difference_values(span), "significantly_below": span.difference_high < 0.0}
        for name, span in paired_with_reference(rows[share]).items()
    }
    kept = gain_kept(rows, share)
    return {**found, "gain_kept": None if kept is None else round(kept, 6)}


def _standings(rows: Mapping[float, Masks], share: float) -> list[str]:
    said = [
        f"{name} {difference_text(span)}{' SIGNIFICANTLY BELOW' if span.difference_high < 0.0 else ''}"
        for name, span in paired_with_reference(rows[share]).items()
    ]
    kept = gain_kept(rows, share)
    return said if kept is None else [*said, f"{kept:.0%} of what full labels gain over majority"]


def _values(found: Mapping[str, Sequence[float]]) -> dict[str, dict[str, float]]:
    keys = ("accuracy", "lowest", "highest")
    return {name: rounded(dict(zip(keys, _spread(each), strict=True))) for name, each in found.items()}


def _mean(masks: Sequence[TableRow]) -> float:
    return float(np.mean([row.accuracy for row in masks]))


def _spread(found: Sequence[float]) -> tuple[float, float, float]:
    """Mean, lowest and highest."""
    return float(np.mean(found)), min(found), max(found)


def _cell(found: Sequence[float]) -> str:
    mean, low, high = (100 * value for value in _spread(found))
    return f"{mean:.2f} ({low:.1f}…{high:.1f})" if low < high else f"{mean:.2f}"


def _above_sigma(rows: Mapping[str, Sequence[float]]) -> str:
    """Which mean accuracies over masks are above that of ``sigma``."""
    means = {name: float(np.mean(found)) for name, found in rows.items()}
    if "sigma" not in means:
        return NO_SIGMA
    above = sorted((name for name in means if means[name] > means["sigma"]), key=lambda name: -means[name])
    said = ", ".join(f"{name} {100 * (means[name] - means['sigma']):+.2f} points" for name in above)
    return f"better than sigma, {means['sigma']:.2%}: {said or 'none'}"
