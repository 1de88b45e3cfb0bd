"""Whether off-policy estimates can be believed, on streams in which every label is known.

Every replay routes the stream in another order, exploring, and sees the label of the served peer only. How
often the interval of an estimate holds the truth, and how wide it is compared with a bootstrap's of the same
estimate, is counted over replays. An estimate that is a prediction is counted apart, since a bootstrap knows
nothing of how far p̂ is off. Then `report` on a memory that only observed, while callers chose peers at
random, is compared with what its choices would have reached, and with what they reach once it is on.
"""

from collections.abc import Mapping

import numpy as np

from sigma_lab.bench.league import DEFAULT, Setup
from sigma_lab.bench.table import Table, about
from sigma_mem.admin.evaluation import (
    LOGGED,
    Estimate,
    PolicyTerms,
    estimates,
    evaluate,
    explored,
    policies,
    policy_terms,
    read_log,
    report,
)
from sigma_mem.events import FloatArray
from sigma_mem.session import SigmaMem
from sigma_mem.streams import Stream
from sigma_mem.streams.stream import chance

_BOOTSTRAPPED = 20  # replays whose intervals are compared with a bootstrap's
_RESAMPLES = 200
_COLUMNS = {
    "read": "read or peer", "estimator": "estimator", "held": "truth in the interval", "width": "width",
    "ratio": "of a bootstrap's", "effective": "effective", "supported": "supported",
    "prediction": "prediction",
}  # fmt: skip


def offpolicy_table(
    stream: Stream,
    phis: FloatArray,
    replays: int = 100,
    events: int = 300,
    observed: int = 10,
    setup: Setup = DEFAULT,
) -> Table:
    """Replay a stream; `observed` of the replays are observed first and then switched on."""
    place = {event.id: i for i, event in enumerate(stream)}
    held: dict[tuple[str, str], list[bool]] = {}
    wide: dict[tuple[str, str], list[tuple[float, float, float, float]]] = {}
    for seed in range(replays):
        part = stream.select(seed=seed, limit=events)
        mem, truth = explored(part, seed=seed, phis=phis[[place[event.id] for event in part]])
        with mem:
            found, log = evaluate(mem, truth=truth), read_log(mem)
        for read, by_name in found.estimates.items():
            for name, each in by_name.items():
                low, high = each.interval
                held.setdefault((read, name), []).append(low <= found.truth[read] <= high)
            if seed < _BOOTSTRAPPED:
                terms = policy_terms(log, policies(log)[read], logged=read == LOGGED)
                for name, width in _bootstrap(terms, seed).items():
                    each = by_name[name]
                    own = each.interval[1] - each.interval[0]
                    wide.setdefault((read, name), []).append((own, width, each.effective, each.supported))
        setup.progress("replays", seed + 1, replays)
    rows, ratios = [], []
    for (read, name), every in held.items():
        own, others, effective, support = np.mean(wide[read, name], axis=0)
        held_in, ratio = f"{sum(every)} of {len(every)}", own / others
        is_prediction = Estimate(0.0, (0.0, 0.0), effective, support).is_prediction
        if not is_prediction:
            ratios.append((sum(every) / len(every), ratio))
        shown = [f"{own:.3f}", f"{ratio:.2f}", f"{effective:.0f}", f"{support:.0%}"]
        rows.append([read, name, held_in, *shown, "yes" if is_prediction else ""])
    switched = [observe_and_switch(stream.select(seed=seed), phis, place, seed) for seed in range(observed)]
    return Table(
        title=f"Off-policy estimates: {stream.name}",
        values={
            **about(stream),
            "replays": replays,
            "rows": [dict(zip(_COLUMNS, x, strict=True)) for x in rows],
            "observed": switched,
        },
        header=list(_COLUMNS.values()),
        rows=rows,
        remarks=_remarks(switched, replays, events, ratios),
    )


def _remarks(
    switched: list[dict[str, float]], replays: int, events: int, ratios: list[tuple[float, float]]
) -> list[str]:
    said = [f"{replays} orders of {events} events, exploring routes, the served peer's label only."]
    least, widest = min(share for share, _ in ratios), max(ratio for _, ratio in ratios)
    said.append(
        f"{len(ratios)} estimates are no predictions: their intervals held the truth in at least {least:.0%} "
        f"of the replays, and are at most {widest:.2f} times as wide as a bootstrap's."
    )
    for one in switched:
        said.append(
            f"observed: {one['estimate']:.1%} ({one['low']:.1%} … {one['high']:.1%}) had it chosen, "
            f"in truth {one['truth']:.1%}; as served {one['served']:.1%}; once on {one['on']:.1%}"
        )
    return said


def _bootstrap(terms: PolicyTerms, seed: int) -> dict[str, float]:
    """Width of every estimate's percentile interval, within 0 and 1, over resampled decisions."""
    rng, n = np.random.default_rng(seed), len(terms.reward)
    draws: dict[str, list[float]] = {}
    for _ in range(_RESAMPLES):
        rows = rng.integers(n, size=n)
        for name, each in estimates(terms.of(rows)).items():
            draws.setdefault(name, []).append(each.value)
    widths = {}
    for name, drawn in draws.items():
        known = np.array(drawn)[np.isfinite(drawn)]
        low, high = np.quantile(known, [0.025, 0.975]).clip(0.0, 1.0) if len(known) else (0.0, 1.0)
        widths[name] = max(float(high - low), 1e-9)
    return widths


def observe_and_switch(
    stream: Stream, phis: FloatArray, place: Mapping[str, int], seed: int
) -> dict[str, float]:
    """Observe half of a stream while callers choose at random, report, then switch the memory on."""
    half = len(stream) // 2
    right, served, on = [], [], []
    with SigmaMem(stream.peers, rank=phis.shape[1], seed=seed, keep_text=False) as mem:
        for i, event in enumerate(stream):
            labels = {peer: 0.5 + 0.5 * c for peer, c in event.correct.items()}
            present = [peer for peer in stream.peers if peer in labels]
            made = mem.route(
                phi=phis[place[event.id]], topic=event.topics or None, among=present, explore=i >= half
            )
            peer = str(made.peer)
            if i < half:
                right.append(labels[peer])
                peer = present[int(chance(seed, "caller", event.id) * len(present))]
                served.append(labels[peer])
                mem.served(made, peer, wait=False)
            else:
                on.append(labels[peer])
            mem.feedback(made, {peer: event.correct[peer]}, wait=False)
            if i == half - 1:
                found = report(mem).compared[0].right_after
    assert found is not None  # every request is labelled
    return {
        "estimate": found.value,
        "low": found.interval[0],
        "high": found.interval[1],
        "truth": float(np.mean(right)),
        "served": float(np.mean(served)),
        "on": float(np.mean(on)),
    }
