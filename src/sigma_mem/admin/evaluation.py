"""What another way of choosing would have reached, from what was logged: off-policy evaluation.

An exploring route draws peer a with a recorded probability μ(a) and sees the reward r of that peer alone. A
way of choosing that takes a with probability π(a) is then worth, with w = π(a)/μ(a) and p̂ as of the
decision,

    IPS    mean of w·r                              no bias, wide
    SNIPS  Σ w·r / Σ w                              a little bias, narrower
    DR     mean of Σ_b π(b)·p̂(b) + w·(r − p̂(a))     no bias, and narrow as far as p̂ is right

p̂ and μ are those of the decision, which knew only what came before. So the terms of IPS and DR are as good
as independent, although the memory learned all the while. Intervals are of 95 %, by the deviation of the
terms and Student's t, with fewer degrees of freedom the more that deviation hangs on a few large terms (by
their kurtosis). The effective sample size is (Σ w)²/Σ w². If the peer that would have been taken had hardly a
chance to be drawn, no weight makes up for it: such decisions are as p̂ predicts, with p̂'s interval, and
`supported` is the share of the others. Where it is below nineteen in twenty, an estimate is a prediction, and
says so (`is_prediction`).

`report` needs no draw: it compares the peer that served with the one that the memory would have chosen. Among
requests of one topic for which it chose one peer, those that this peer happened to serve stand for the
others.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sigma_mem.decide.explore import propensities
from sigma_mem.errors import InputError
from sigma_mem.events import FloatArray
from sigma_mem.ledger.event import EventState, events_of
from sigma_mem.ledger.lines import DecisionLine, is_decision
from sigma_mem.memory.rates import wilson
from sigma_mem.session import SigmaMem
from sigma_mem.session.history import Moment, seconds_of
from sigma_mem.streams import Stream
from sigma_mem.tabular import Tabular

LOGGED = "as logged"
ESTIMATORS = ("ips", "snips", "dr")
_SUPPORT = 0.05  # chance of a draw below which a decision shows too little about a peer
_SUPPORTED = 0.95  # share of decisions at least, or an estimate is a prediction
_Z = 1.96
_LEAST = 8.0  # degrees of freedom, so that no interval is much wider than a bootstrap's
_FEW = 8  # that agree show little about how far others are apart
_FEWEST = 2  # labels of requests that a peer served, to stand for others


class Estimate(NamedTuple):
    """A mean, its interval of 95 %, the effective number of terms behind it, and the share it rests on.

    The rest, `1 − supported`, is predicted.
    """

    value: float
    interval: tuple[float, float]
    effective: float
    supported: float = 1.0

    @property
    def is_prediction(self) -> bool:
        """Whether too much of it is p̂'s, because its peer was hardly ever drawn."""
        return self.supported < _SUPPORTED


def off_policy(
    reward: FloatArray, weight: FloatArray, predicted: FloatArray, predicted_taken: FloatArray
) -> dict[str, Estimate]:
    """IPS, SNIPS and DR estimates of the mean reward of a way of choosing.

    Parameters
    ----------
    reward : array (T,)
        Of the peer that was taken, from 0 to 1.
    weight : array (T,)
        π/μ of that peer.
    predicted, predicted_taken : array (T,)
        Σ_b π(b)·p̂(b), and p̂ of the peer that was taken.

    Examples
    --------
    >>> reward, weight = np.array([1.0, 0.0, 1.0, 1.0]), np.array([2.0, 2.0, 0.0, 0.0])
    >>> found = off_policy(reward, weight, np.full(4, 0.5), np.full(4, 0.5))
    >>> {name: (each.value, each.effective) for name, each in found.items()}
    {'ips': (0.5, 2.0), 'snips': (0.5, 2.0), 'dr': (0.5, 2.0)}
    """
    total, squares = float(weight.sum()), float(np.square(weight).sum())
    if not squares:  # nothing that was taken would have been
        return dict.fromkeys(ESTIMATORS, Estimate(math.nan, (0.0, 1.0), 0.0))
    effective, share = total * total / squares, total / len(weight)
    normalised = float(weight @ reward) / total
    terms = {
        "ips": weight * reward,
        "snips": normalised + weight * (reward - normalised) / share,
        "dr": predicted + weight * (reward - predicted_taken),
    }
    return {name: _mean(each, effective) for name, each in terms.items()}


def _mean(terms: FloatArray, effective: float) -> Estimate:
    """The mean of terms, and its interval within 0 and 1."""
    n, value = len(terms), float(terms.mean())
    if effective <= 1.0:
        return Estimate(value, (0.0, 1.0), effective)
    second, fourth = (float(np.mean((terms - value) ** power)) for power in (2, 4))
    freedom = n - 1.0
    if fourth > second * second > 0.0:
        freedom = min(freedom, max(_LEAST, 2.0 * n / (fourth / (second * second) - 1.0)))
    t = _Z + (_Z**3 + _Z) / (4.0 * freedom) + (5.0 * _Z**5 + 16.0 * _Z**3 + 3.0 * _Z) / (96.0 * freedom**2)
    half = t * math.sqrt(second / (n - 1.0))
    least, value, most = (min(max(x, 0.0), 1.0) for x in (value - half, value, value + half))
    return Estimate(value, (least, most), effective)


# ---- what was logged


class Log(NamedTuple):
    """Decisions as arrays; T of them, P peers."""

    peers: tuple[str, ...]
    events: list[str]
    topics: list[tuple[str, ...]]
    prob: FloatArray  # p̂, (T, P); NaN for peers that could not be chosen
    score: FloatArray  # φᵀMφ, likewise
    observations: FloatArray  # how many labels p̂ is worth, (T, P)
    chosen: NDArray[np.intp]  # (T,); −1 for nobody
    served: NDArray[np.intp]
    propensity: FloatArray  # of the chosen peer, (T,)
    chances: FloatArray  # of every peer, about, (T, P); of the chosen one alone if nothing was drawn
    right: FloatArray  # how right every peer was, from 0 to 1, (T, P); NaN if there is no label
    expected: FloatArray  # what a call to the chosen peer was expected to cost, (T,); NaN without a price
    paid: FloatArray  # what the calls cost
    reads: list[Mapping[str, str]]  # the peer that every read of an adaptive decision chose


def read_log(mem: SigmaMem, since: Moment | None = None, until: Moment | None = None) -> Log:
    """One decision of every event: its first route, or the last one before the first label with answers."""
    first = -math.inf if since is None else seconds_of(since)
    last = math.inf if until is None else seconds_of(until)
    with mem.journal as fold:
        lines = [fold.pool.translated(x) for x in mem.journal.ledger.lines(until=fold.seq)]
        events, peers = events_of(lines, fold.revoked), tuple(sorted(fold.known_peers()))
    peers = (*mem.peers, *(peer for peer in peers if peer not in mem.peers))
    ids = {id(line.body): line.id for line in lines if is_decision(line)}
    found = []
    for name, event in events.items():
        body = event.first if event.answered is None else event.answered.body
        if first <= event.first.time < last:
            found.append(_row(name, event, body, event.served.get(ids[id(body)]), peers))
    if not found:
        raise InputError("no decision in this time; expected a memory that has decided, or another since")
    columns = list(zip(*found, strict=True))
    return Log(
        peers,
        list(columns[0]),
        list(columns[1]),
        *(np.array(column) for column in columns[2:-1]),  # type: ignore[arg-type]
        list(columns[-1]),  # type: ignore[call-arg]
    )


def _row(
    name: str, event: EventState, body: DecisionLine, served: str | None, peers: Sequence[str]
) -> tuple[Any, ...]:
    place = {peer: peers.index(peer) for peer in body.peers if peer in peers}
    at = np.full((3, len(peers)), math.nan)
    for row, peer in enumerate(body.peers):
        if peer in place and peer in body.details.get("among", body.peers):
            at[:, place[peer]] = body.read_of_peers()[:, row]
    labels, right = event.labels().c, np.full(len(peers), math.nan)
    for peer, column in place.items():
        right[column] = 0.5 + 0.5 * event.answer_label(peer, labels)
    chosen, chances = place.get(body.chosen or "", -1), np.zeros(len(peers))
    if body.read.startswith("exploring"):
        rows = np.flatnonzero(np.isfinite(at[1]))
        chances[rows] = propensities(at[1, rows], at[2, rows] + 1.0)
    elif chosen >= 0:
        chances[chosen] = 1.0
    charges = [charge.amount for charge in event.charges.values()]
    expected = body.costs.get(body.chosen or "", (math.nan,))[0]
    whom = (chosen, place.get(served or body.chosen or "", -1), body.propensity, chances)
    costs = (expected, math.fsum(charges) if charges else math.nan)
    return (name, event.topics, at[1], at[0], at[2] + 1.0, *whom, right, *costs, body.chosen_by_vote())


# ---- evaluate


@dataclass(frozen=True, slots=True, repr=False)
class Evaluation(Tabular):
    """What ways of choosing would have reached.

    Attributes
    ----------
    decisions : int
        With a label of the peer that was drawn, or labels of all.
    elsewhere : int
        With a label of another peer, which served instead: they count only as logged.
    estimates : mapping
        Way of choosing → "ips", "snips", "dr" → Estimate.
    truth : mapping
        Way of choosing → share right, if every label is known.
    """

    decisions: int
    elsewhere: int
    estimates: Mapping[str, Mapping[str, Estimate]]
    truth: Mapping[str, float]

    def __repr__(self) -> str:
        return f"<Evaluation of {len(self.estimates)} ways to choose on {self.decisions} labelled decisions>"

    def rows(self) -> list[dict[str, Any]]:
        """One row for a way and an estimator."""
        return [
            {
                "read": read,
                "estimator": name,
                "value": None if math.isnan(each.value) else each.value,
                "low": each.interval[0],
                "high": each.interval[1],
                "effective": each.effective,
                "supported": each.supported,
                "is_prediction": each.is_prediction,
                "truth": self.truth.get(read),
            }
            for read, by_name in self.estimates.items()
            for name, each in by_name.items()
        ]

    def to_dict(self) -> dict[str, Any]:
        """How many decisions, and the rows."""
        return {"decisions": self.decisions, "elsewhere": self.elsewhere, "estimates": self.rows()}


def evaluate(
    mem: SigmaMem,
    reads: Iterable[str] | None = None,
    *,
    since: Moment | None = None,
    until: Moment | None = None,
    truth: Mapping[str, Mapping[str, float]] | None = None,
) -> Evaluation:
    """Estimate how often every way of choosing would have been right, from the draws in a ledger.

    Only decisions count that have a label of the peer that was drawn, or labels of all candidates. Explore
    (``route(explore=True)``): nothing is known about what a peer that is never drawn would have been worth.
    What another peer served instead, as in the gateway's mode "observe", `report` compares.

    Parameters
    ----------
    mem : SigmaMem
    reads : iterable of str, optional
        Reads, "as logged", or names of peers that would have served everything; all by default.
    since, until : float, datetime or str, optional
        Only decisions of this time.
    truth : mapping, optional
        Event → peer → label, if every label is known, to compare with.
    """
    log = read_log(mem, since, until)
    known, labelled = _known(log), _labelled(log)
    targets = policies(log)
    wanted = list(targets) if reads is None else list(reads)
    for name in wanted:
        if name not in targets:
            raise InputError(f"read is {name!r}; expected some of {list(targets)}")
    if not known.any():
        if labelled.any():
            raise InputError("no peer that was drawn has a label, others served; expected `report` instead")
        raise InputError("no decision has a label of the peer that served; expected feedback first")
    found = {name: estimates(policy_terms(log, targets[name], logged=name == LOGGED)) for name in wanted}
    exact = {} if truth is None else {name: _truth(log, targets[name], truth) for name in wanted}
    return Evaluation(int(known.sum()), int((labelled & ~known).sum()), found, exact)


def explored(
    stream: Stream, *, seed: int = 0, phis: FloatArray | None = None
) -> tuple[SigmaMem, dict[str, Mapping[str, float]]]:
    """A memory in this process that routed a stream, exploring, and saw the served peer's label only.

    Returns the labels of all peers by event, too: what `evaluate` takes as truth. Without `phis` questions
    are encoded by the default encoder.
    """
    events = [event for event in stream if event.correct]
    rank = None if phis is None else phis.shape[1]
    mem, truth = SigmaMem(stream.peers, rank=rank, seed=seed, keep_text=False), {}
    for place, event in enumerate(events):
        asked = {"question": event.question} if phis is None else {"phi": phis[place]}
        present = [peer for peer in stream.peers if peer in event.correct]
        made = mem.route(**asked, topic=event.topics or None, among=present, explore=True)
        truth[made.id] = event.correct
        mem.feedback(made, {str(made.peer): event.correct[str(made.peer)]}, wait=False)
    return mem, truth


def _known(log: Log) -> NDArray[np.bool_]:
    """Decisions of which there is the label that weighs: of the peer that was drawn, or of all."""
    drawn = (log.served == log.chosen) & (log.chosen >= 0) & (log.propensity > 0.0)
    found: NDArray[np.bool_] = (drawn & _labelled(log)) | _full(log)
    return found


def _labelled(log: Log) -> NDArray[np.bool_]:
    """Decisions of which there is a label of the peer that served, whoever was drawn."""
    return np.isfinite(_of(log.right, log.served))


def _full(log: Log) -> NDArray[np.bool_]:
    """Decisions whose candidates are all labelled."""
    candidates = np.isfinite(log.prob)
    found: NDArray[np.bool_] = np.all(np.isfinite(log.right) | ~candidates, axis=1) & (candidates.sum(1) > 1)
    return found


def _of(values: FloatArray, peers: NDArray[np.intp]) -> FloatArray:
    """The value of one peer in every row; NaN for nobody."""
    found: FloatArray = np.where(peers >= 0, values[np.arange(len(peers)), peers], math.nan)
    return found


def policies(log: Log) -> dict[str, NDArray[np.intp]]:
    """The peer that every way of choosing takes, (T,); −1 for nobody."""
    found = {LOGGED: log.served}
    candidates = np.isfinite(log.prob)
    for read, values in (("calibrated-route", log.prob), ("m-route", log.score)):
        best = np.where(candidates, values, -math.inf).argmax(axis=1)
        found[read] = np.where(candidates.any(axis=1), best, -1)
    for read in dict.fromkeys(read for reads in log.reads for read in reads):
        chosen = [log.peers.index(reads[read]) if read in reads else -1 for reads in log.reads]
        found.setdefault(read, np.array(chosen))
    for column, peer in enumerate(log.peers):
        if candidates[:, column].any():
            found[peer] = np.where(candidates[:, column], column, -1)
    return found


class PolicyTerms(NamedTuple):
    """What the estimates of one way of choosing are made of, for the decisions that count, (T,) each."""

    reward: FloatArray
    weight: FloatArray
    predicted: FloatArray
    predicted_taken: FloatArray
    low: FloatArray  # ends of the interval of `predicted`
    high: FloatArray
    supported: NDArray[np.bool_]  # whether the peer that would have been taken could well have been drawn

    def of(self, rows: NDArray[np.intp]) -> PolicyTerms:
        """Those of some decisions."""
        return PolicyTerms(*(each[rows] for each in self))  # type: ignore[arg-type]


def policy_terms(log: Log, wanted: NDArray[np.intp], *, logged: bool = False) -> PolicyTerms:
    """The terms for a way of choosing that takes these peers, (T,).

    `logged` means that they are who served, so that every weight is 1.
    """
    known = (_labelled(log) if logged else _known(log)) & (wanted >= 0)
    full, right, prob = _full(log)[known] | logged, log.right[known], np.nan_to_num(log.prob[known])
    wanted, served = wanted[known], log.served[known]
    taken = np.where(full, wanted, served)
    weight = np.where(full, 1.0, (wanted == served) / log.propensity[known])
    low, high = wilson(_of(prob, wanted), _of(log.observations[known], wanted))
    supported = full | (_of(log.chances[known], wanted) >= _SUPPORT)
    return PolicyTerms(_of(right, taken), weight, _of(prob, wanted), _of(prob, taken), low, high, supported)


def estimates(terms: PolicyTerms) -> dict[str, Estimate]:
    """The estimates of one way of choosing: `off_policy` if there is support, p̂ for the rest."""
    inside, share = terms.supported, float(terms.supported.mean()) if len(terms.supported) else 0.0
    if not share:
        ends = (0.0, 1.0) if not len(inside) else (float(terms.low.mean()), float(terms.high.mean()))
        value = float(terms.predicted.mean()) if len(inside) else math.nan
        return dict.fromkeys(ESTIMATORS, Estimate(value, ends, 0.0, 0.0))
    found = off_policy(*(each[inside] for each in terms[:4]))
    if share == 1.0:
        return found
    # The draws of the one part and the labels behind the rest are not the same: squares of errors add up.
    value, low, high = (float(each[~inside].mean()) for each in (terms.predicted, terms.low, terms.high))
    joined, rest = {}, 1.0 - share
    for name, (own, (least, most), effective, _) in found.items():
        mean = share * own + rest * value
        below = math.hypot(share * (own - least), rest * (value - low))
        above = math.hypot(share * (most - own), rest * (high - value))
        joined[name] = Estimate(mean, (max(0.0, mean - below), min(1.0, mean + above)), effective, share)
    return joined


def _truth(log: Log, wanted: NDArray[np.intp], truth: Mapping[str, Mapping[str, float]]) -> float:
    rows = [[0.5 + 0.5 * truth[id].get(peer, math.nan) for peer in log.peers] for id in log.events]
    return float(np.nanmean(_of(np.array(rows), wanted)))


# ---- report


@dataclass(frozen=True, slots=True)
class Compared:
    """Requests as they were served, and had the memory chosen.

    Attributes
    ----------
    topic : str, optional
        None for all of them.
    requests, elsewhere, untried : int
        How many, how many would have gone to another peer, and how many of those to one that served no such
        request, so that only p̂ is known of it.
    right_before, right_after, cost_before, cost_after : Estimate, optional
        Share right and mean cost as they were, and as they would have been; None without a label or price.
    """

    topic: str | None
    requests: int
    elsewhere: int
    untried: int
    right_before: Estimate | None
    right_after: Estimate | None
    cost_before: Estimate | None
    cost_after: Estimate | None


@dataclass(frozen=True, slots=True, repr=False)
class SwitchReport(Tabular):
    """Had the memory chosen since then: all requests, then every topic."""

    compared: tuple[Compared, ...]

    def __repr__(self) -> str:
        total = self.compared[0]
        return f"<Report: {total.elsewhere} of {total.requests} requests would have gone elsewhere>"

    def rows(self) -> list[dict[str, Any]]:
        """One row for all requests, and one for every topic; estimates as values and intervals."""
        rows = [asdict(each) for each in self.compared]
        for row in rows:
            for name in ("right_before", "right_after", "cost_before", "cost_after"):
                found = row[name]
                row[name] = None if found is None else found[0]
                row[f"{name}_interval"] = None if found is None else list(found[1])
        return rows

    def to_dict(self) -> dict[str, Any]:
        """Under "compared", the rows."""
        return {"compared": self.rows()}


def report(mem: SigmaMem, *, since: Moment | None = None, until: Moment | None = None) -> SwitchReport:
    """Report what the memory would have chosen: which peers, how often right, at what cost, by topic.

    Made for the gateway's mode "observe", in which the caller's model serves. Which model that is may depend
    on the topic, but not on how hard the request is.

    Parameters
    ----------
    mem : SigmaMem
    since, until : float, datetime or str, optional
        Only decisions of this time.
    """
    log = read_log(mem, since, until)
    counted = (log.chosen >= 0) & (log.served >= 0)
    if not counted.any():
        raise InputError("nobody served in this time; expected decisions that chose a peer")
    topics = sorted({topic for some in log.topics for topic in some})
    prices = _prices(log)
    every = [_compared(log, counted, None, prices)]
    for topic in topics:
        of_topic = np.array([topic in some for some in log.topics])
        every.append(_compared(log, counted & of_topic, topic, prices))
    return SwitchReport(tuple(every))


def _prices(log: Log) -> FloatArray:
    """The mean, least and most that requests cost which a peer served, (3, P); NaN if it served none."""
    found = np.full((3, len(log.peers)), math.nan)
    for column in np.unique(log.served[(log.served >= 0) & np.isfinite(log.paid)]):
        own = log.paid[(log.served == column) & np.isfinite(log.paid)]
        found[:, column] = own.mean(), own.min(), own.max()
    return found


def _compared(log: Log, counted: NDArray[np.bool_], topic: str | None, prices: FloatArray) -> Compared:
    places = np.flatnonzero(counted)
    kinds = [log.topics[i] for i in places]
    chosen, served = log.chosen[places], log.served[places]
    right = _of(log.right[places], served)
    prob, observations = (_of(each[places], chosen) for each in (log.prob, log.observations))
    low, high = wilson(prob, observations)
    same = chosen == served
    after, tried = stratified(_cells(kinds, chosen), prob, np.where(same, right, math.nan), low, high)
    labelled = bool(np.isfinite(right).any())
    usual_right = np.full(len(places), np.nanmean(right) if labelled else math.nan)
    before, _ = stratified(_cells(kinds, served), usual_right, right)
    paid, expected = log.paid[places], log.expected[places]
    costs: tuple[Estimate | None, Estimate | None] = (None, None)
    if np.isfinite(paid).any() and np.isfinite(expected).all():
        usual_cost, paid_same = np.full(len(places), np.nanmean(paid)), np.where(same, paid, math.nan)
        costs = (
            _cost(_cells(kinds, served), paid, prices[:, served], usual_cost),
            _cost(_cells(kinds, chosen), paid_same, prices[:, chosen], expected),
        )
    counts = len(places), int((~same).sum()), int((~same & ~tried).sum())
    was, then = (before, before if same.all() else after) if labelled else (None, None)
    return Compared(topic, *counts, was, then, *costs)


def _cost(cells: NDArray[np.intp], paid: FloatArray, usual: FloatArray, unknown: FloatArray) -> Estimate:
    """The mean cost of requests, some paid for; of the others their peer's `usual` one, (3, T), if known."""
    mean, least, most = np.where(np.isfinite(usual), usual, unknown)
    return stratified(cells, mean, paid, least, most, most=float(most.max()))[0]


def _cells(kinds: Sequence[tuple[str, ...]], peers: NDArray[np.intp]) -> NDArray[np.intp]:
    """A number for every pair of topics and peer."""
    known: dict[tuple[tuple[str, ...], int], int] = {}
    return np.array([known.setdefault(pair, len(known)) for pair in zip(kinds, peers.tolist(), strict=True)])


def stratified(
    cells: NDArray[np.intp],
    predicted: FloatArray,
    observed: FloatArray,
    low: FloatArray | float = 0.0,
    high: FloatArray | float = 1.0,
    *,
    most: float = 1.0,
) -> tuple[Estimate, NDArray[np.bool_]]:
    """The mean of something that is predicted for all, (T,), and observed for some; NaN for the others.

    In every cell the mean error of the prediction on observed events corrects the others. In a cell with
    fewer than two observations the others are as predicted, from `low` to `high`. Nothing is
    below 0 or above `most`. Returns which are in cells with observations, too.

    >>> cells, predicted = np.array([0, 0, 0, 0]), np.full(4, 0.5)
    >>> stratified(cells, predicted, np.array([1.0, 0.0, 1.0, np.nan]))[0].value.__round__(3)
    0.667
    """
    n, seen = len(cells), np.isfinite(observed)
    total, variance, below, above, effective = 0.0, 0.0, 0.0, 0.0, 0
    tried = np.zeros(n, dtype=np.bool_)
    lows, highs = np.broadcast_to(low, n), np.broadcast_to(high, n)
    for cell in np.unique(cells):
        own = cells == cell
        both = own & seen
        size, m = int(own.sum()), int(both.sum())
        if m < _FEWEST:
            guess = np.where(seen, observed, predicted)[own]
            total += float(guess.sum())
            below += float(np.maximum(guess - lows[own], 0.0).sum())
            above += float(np.maximum(highs[own] - guess, 0.0).sum())
            continue
        tried |= own
        error = (observed - predicted)[both]
        total += float(predicted[own].sum()) + size * float(error.mean())
        reach = float((highs - lows)[own].mean())
        spread = max(float(error.var(ddof=1)), 0.25 * reach**2 / m if m < _FEW else 0.0)
        variance += size * size * spread / m + size * float(predicted[own].var())
        effective += m
    half = _Z * math.sqrt(variance)
    ends = (total - half - below, total, total + half + above)
    least, value, largest = (min(max(end / n, 0.0), most) for end in ends)
    return Estimate(value, (least, largest), float(effective)), tried
