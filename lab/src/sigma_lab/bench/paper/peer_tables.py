"""What the streams look like: how right the peers are, before and under the attack, and whom it attacks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from sigma_lab.attack import attack_plan, counterfactual
from sigma_lab.bench.paper.cells import Cell, PaperTable
from sigma_lab.bench.paper.inputs import PaperStreams, dataset_name, in_order, subset_name
from sigma_lab.bench.paper.published import figure
from sigma_lab.bench.row import successes
from sigma_mem.events import Event, FloatArray
from sigma_mem.streams import Stream

_WORDS = {3: "three", 4: "four", 5: "five"}


def peer_tables(streams: PaperStreams, ratios: Sequence[float], seed: int) -> list[PaperTable]:
    """Peer accuracy on every stream, and the attack's strong peers and eligible events."""
    tables = []
    if streams.train is not None:
        tables.append(
            _accuracies(
                "peers-train", "Peer accuracy, training", "tab:training_peer_accuracy", streams.train, "train"
            )
        )
    sizes = (streams.trained, *streams.larger) if streams.cf is not None else ()
    for size in sizes:
        tables.append(_under_attack(streams.pool(size), size, ratios, seed))
    if sizes:
        tables.append(_attack(streams, sizes, seed))
    if streams.ood is not None:
        tables.append(
            _accuracies("peers-ood", "Peer accuracy, outside", "tab:ood_peer_accuracy", streams.ood, "ood")
        )
        parts = [event for event in streams.ood if subset_name(event) is not None]
        if parts:
            glue = Stream(streams.ood.name, streams.ood.peers, tuple(parts))
            tables.append(
                _accuracies(
                    "peers-superglue", "Peer accuracy, SuperGLUE", "tab:superglue_peer_breakdown", glue,
                    "superglue", subset_name,
                )
            )  # fmt: skip
    return tables


def _accuracies(
    key: str,
    title: str,
    label: str,
    stream: Stream,
    paper: str,
    part: Callable[[Event], str | None] = dataset_name,
) -> PaperTable:
    """A line per benchmark or subset, and all of them pooled by events."""
    names = np.array([part(event) for event in stream], dtype=str)
    r = successes(stream.labels())
    rows: list[tuple[str, list[Cell]]] = []
    groups = [(name, names == name) for name in in_order(names.tolist())]
    for name, here in [*groups, ("Overall", np.full(len(names), True))]:
        published = figure("peer_accuracy", paper, name)
        own = [_rate(column) for column in r[here].T]
        rows.append((name, _line(int(here.sum()), own, published)))
    answered = (~np.isnan(r)).sum(axis=0)
    given = [f"{peer} {n:,}" for peer, n in zip(stream.peers, answered, strict=True) if n < len(r)]
    notes = (f"Of the answers that a peer gave: {', '.join(given)} of {len(r):,}.",) if given else ()
    return PaperTable(key, title, label, ["benchmark", "N", *stream.peers], rows, notes)


def _under_attack(pool: Stream, size: int, ratios: Sequence[float], seed: int) -> PaperTable:
    rows = []
    for ratio in ratios:
        name = f"CF@{100 * ratio:g}"
        r = successes(counterfactual(pool, ratio, seed=seed).labels())
        own = [_rate(column) for column in r.T]
        rows.append((name, _line(len(pool), own, figure("peer_accuracy", f"cf-{size}", name))))
    label = "counterfactual" if size == 3 else _WORDS.get(size, "")
    return PaperTable(
        f"peers-cf-{size}",
        f"Peer accuracy under attack, {size} peers",
        f"tab:{label}_peer_accuracy" if label else "",
        ["attack", "N", *pool.peers],
        rows,
    )


def _attack(streams: PaperStreams, sizes: Sequence[int], seed: int) -> PaperTable:
    """The strong peer of every benchmark, and how many of its events can be attacked, in every pool."""
    plans = {size: attack_plan(streams.pool(size), seed=seed) for size in sizes}
    counts: dict[str, int] = {}
    for event in streams.pool(streams.trained):
        counts[event.dataset] = counts.get(event.dataset, 0) + 1
    header = ["benchmark", "N"]
    for size in sizes:
        header += [f"strong, {size} peers", f"eligible, {size} peers"]
    rows = []
    units = list(dict.fromkeys(attack.unit for plan in plans.values() for attack in plan))
    for unit in units:
        cells = [Cell(str(counts.get(unit, "–")))]
        for plan in plans.values():
            attack = next((a for a in plan if a.unit == unit), None)
            cells += [
                Cell(attack.strong if attack else None),
                Cell(str(len(attack.eligible)) if attack else None),
            ]
        rows.append((unit or "all", cells))
    note = "Strong: best on clean labels. Eligible: the strong peer is right and another one wrong."
    return PaperTable("attack", "Strong peers and eligible events of the attack", "", header, rows, (note,))


def _rate(column: FloatArray) -> float | None:
    """Percent right of the known ones; None where a peer gave no answer."""
    known = column[~np.isnan(column)]
    return float(100 * known.mean()) if len(known) else None


def _line(n: int, own: Sequence[float | None], published: dict[str, object] | None) -> list[Cell]:
    paper = published["accuracy"] if published else []
    figures = list(paper) if isinstance(paper, list) else []
    figures += [None] * (len(own) - len(figures))
    best = max((rate for rate in own if rate is not None), default=None)
    count = f"{published['n']:,}" if published else None
    return [
        Cell(f"{n:,}", count),
        *(Cell(o, p, o is not None and o == best) for o, p in zip(own, figures, strict=False)),
    ]
