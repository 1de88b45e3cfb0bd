"""A center's rows next to those of the other mechanisms: the judge with and without memory, and its controls.

| row | utility of peer p | selection |
|---|---|---|
| base | U_p of the unsteered judge | highest U |
| sigma-no-g | U_p steered by M_pφ | highest U |
| sigma | U_p steered by M_pφ | posterior with G |
| fast | base U_p + wᵀM_pφ | posterior with G |
| zero-M | base U_p (a memory of zeros steers nothing) | posterior with G |
| swapped-M | U_p steered by the next peer's M φ | posterior with G |
| m-route-learned | φᵀM_pφ on the checkpoint's φ: the memory without a judge | highest score |

A forward pass is expensive, so a center may judge a part of a stream. All memories are written from the whole
of it, in order; the table is then about the judged events for all rows alike, and every difference is paired.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sigma_lab.bench.league import ORACLES, Progress, silent
from sigma_lab.bench.row import TableRow, correct_at, intervals, row_of
from sigma_lab.bench.scores import Pair, Scorer, Scores
from sigma_mem.decide.posterior import normalized_utility, posterior
from sigma_mem.encode import open_encoder
from sigma_mem.errors import InputError
from sigma_mem.events import FloatArray
from sigma_mem.judges.words import record_in_words
from sigma_mem.memory import Settings, SigmaState
from sigma_mem.streams import Stream
from sigma_mem.streams.stream import chance

if TYPE_CHECKING:
    from sigma_mem.center.prompt import JudgePrompt

ROWS = ("base", "sigma-no-g", "sigma", "fast", "zero-M", "swapped-M", "m-route-learned")
_HIGHEST = ("base", "sigma-no-g", "m-route-learned")  # the others select by the posterior with G
NO_SIGMA = "there is no row sigma without a steering; train one with  sigma-mem train steering"


@dataclass(frozen=True, slots=True)
class JudgedEvents:
    """What a table with a center is about, as ``--json`` prints it under ``center``."""

    name: str
    steering: str | None
    judged: int  # events, of those that were played
    played: int

    @property
    def note(self) -> str:
        """One sentence for below the table."""
        how = "unsteered" if self.steering is None else f"steered by {self.steering}"
        return (
            f"center {self.name}, {how}: {self.judged} of {self.played} events judged; every row is about "
            "these events, every memory went through all"
        )


@dataclass(frozen=True, slots=True)
class PosteriorWeights:
    """What the paper leaves open in the posterior (eq:sigma_topology_posterior) and in G.

    The paper names w_u, w_g, ε, γ_G and η_G and gives no value; see docs/lab/paper.md for ours.
    """

    w_u: float = 1.0
    w_g: float = 1.0
    epsilon: float = 1e-8
    gamma_g: float = 0.995
    eta_g: float = 0.005

    def choose(self, utilities: FloatArray, relations: FloatArray) -> NDArray[np.intp]:
        """The peer with the largest posterior expectation at every event; U is NaN if there is none."""
        chosen = []
        for U, G in zip(utilities, relations, strict=True):
            here = np.flatnonzero(~np.isnan(U))
            z = normalized_utility(U[here], self.epsilon)
            chosen.append(int(here[posterior(z, G[np.ix_(here, here)], self.w_u, self.w_g).peer]))
        return np.array(chosen, dtype=np.intp)


@dataclass(frozen=True, slots=True)
class BenchCenter:
    """A center that is ready to judge events of a stream; `open_bench_center` makes one."""

    name: str
    steering: str | None
    scorer: Scorer  # utilities of (question, answer) pairs under readouts; each is judged once
    phi: Mapping[str, FloatArray]  # of every question, by the encoder that the steering was learned with
    fast: FloatArray | None  # w of the fast read, (rank,)
    gamma: float  # of the memory that the steering was learned with
    rows: Sequence[str] = ROWS  # those that can be made
    after: int = 0  # with limit and seed: which events are judged, see `judged_events`
    limit: int | None = None
    seed: int = 0
    weights: PosteriorWeights = PosteriorWeights()
    named: bool = False  # whether the judging prompt names the peer that answered
    answer_tokens: int = 256  # of which the judge reads an answer
    only: frozenset[str] | None = None  # ids of the events that are judged, instead of a draw

    def places(self, stream: Stream) -> list[int]:
        """The events that are judged, and that the table is about."""
        if self.only is not None:
            return [place for place, event in enumerate(stream) if event.id in self.only]
        found = judged_events(stream, after=self.after, limit=self.limit, seed=self.seed)
        if not found:
            raise InputError(
                f"no event is left to judge behind the first {self.after} of {len(stream)}; give a smaller "
                "--judge-after or a longer stream"
            )
        return found

    def judged(self, stream: Stream) -> JudgedEvents:
        """What to print about it."""
        return JudgedEvents(self.name, self.steering, len(self.places(stream)), len(stream))

    def judge(
        self,
        stream: Stream,
        *,
        warm: Stream | None = None,
        shown: NDArray[np.bool_] | None = None,
        rows: Sequence[str] = ROWS,
    ) -> dict[str, TableRow]:
        """What each of the rows chooses at the judged events of a stream, and whether it was right.

        The memory is written from ``warm``, a stream of the same peers, first. It gets the labels of the
        ``shown`` events, (T,), all by default; the others only decay. The grading knows all.
        """
        wanted = [name for name in self.rows if name in rows and (name != "fast" or self.fast is not None)]
        places, labels, before = self.places(stream), stream.labels(), () if warm is None else warm.events
        whole = replace(stream, events=(*before, *stream.events))
        told = whole.labels()
        if shown is not None:
            told[len(before) :][~shown] = np.nan
        phis = self.phis(whole)
        at_places = {len(before) + place for place in places}
        readouts, relations, _ = self._memory(whole.peers, phis, told, at_places)
        pairs, answered = self._pairs(stream, places)

        def by_peer(values: FloatArray) -> FloatArray:
            found = np.full(answered.shape, np.nan)
            found[answered] = values
            return found

        def steered(by: FloatArray) -> FloatArray:
            return by_peer(self.scorer(pairs, by[answered]))

        utilities: dict[str, FloatArray] = {}
        if {"base", "zero-M", "fast"} & set(wanted):
            utilities["base"] = utilities["zero-M"] = by_peer(self.scorer(pairs, None))
        if self.fast is not None and "fast" in wanted:
            utilities["fast"] = utilities["base"] + readouts @ self.fast
        if {"sigma", "sigma-no-g"} & set(wanted):
            utilities["sigma"] = utilities["sigma-no-g"] = steered(readouts)
        if "swapped-M" in wanted:
            utilities["swapped-M"] = steered(np.roll(readouts, 1, axis=1))
        at = phis[len(before) :][places]
        scores = np.einsum("npr,nr->np", readouts, at)  # eq:direct_m_score
        utilities["m-route-learned"] = np.where(answered, scores, np.nan)
        out = {}
        for name in wanted:
            if name in _HIGHEST:
                chosen = np.where(answered, utilities[name], -np.inf).argmax(axis=1)
            else:
                chosen = self.weights.choose(utilities[name], relations)
            out[name] = row_of(chosen, correct_at(labels[places], chosen), stream.peers)
        return out

    def base_utilities(self, stream: Stream) -> FloatArray:
        """U of the unsteered judge at the judged events, (n, P); NaN if a peer gave no answer."""
        pairs, answered = self._pairs(stream, self.places(stream))
        found = np.full(answered.shape, np.nan)
        found[answered] = self.scorer(pairs, None)
        return found

    def utilities_in_words(self, stream: Stream) -> FloatArray:
        """The same of a judge that also reads the memory's record of every peer, in words."""
        check_room_for_words(self.answer_tokens)
        places = self.places(stream)
        pairs, answered = self._pairs(stream, places)
        records = self._memory(stream.peers, self.phis(stream), stream.labels(), set(places))[2]
        told = [
            (pair[0], f"{pair[1]}\n\n{record_in_words(*record)}", *pair[2:])
            for pair, record in zip(pairs, records[answered].tolist(), strict=True)
        ]
        found = np.full(answered.shape, np.nan)
        found[answered] = self.scorer(told, None)
        return found

    def phis(self, stream: Stream) -> FloatArray:
        """φ of every event of a stream, (T, rank)."""
        return np.stack([self.phi[event.question] for event in stream])

    def _pairs(self, stream: Stream, places: Sequence[int]) -> tuple[list[Pair], NDArray[np.bool_]]:
        """What is judged, and which peers answered, (n, P): a peer that failed is not judged or chosen."""
        events = [stream.events[place] for place in places]
        answered = np.array([[peer in event.answers for peer in stream.peers] for event in events])
        pairs: list[Pair] = []
        for event, row in zip(events, answered, strict=True):
            for peer in np.array(stream.peers)[row].tolist():
                text = event.answers[peer].text
                pairs.append((event.question, text, peer) if self.named else (event.question, text))
        return pairs, answered

    def _memory(
        self, peers: tuple[str, ...], phis: FloatArray, told: FloatArray, judged: set[int]
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Just before the judged events: readouts (n, P, rank), relations (n, P, P), records (n, P, 2).

        A record is p̂ and how many labels stand behind it.
        """
        given: dict[str, Any] = {"gamma_g": self.weights.gamma_g, "eta_g": self.weights.eta_g}
        state = SigmaState(peers, phis.shape[1], Settings(gamma=self.gamma, **given))
        readouts, relations, records = [], [], []
        for place, (phi, c) in enumerate(zip(phis, told, strict=True)):
            if place in judged:
                reading = state.read(phi)
                records.append(np.column_stack((reading.prob, reading.labels)))
                readouts.append(state.readout(phi))
                relations.append(state.G)
            state.write(phi, c, state.begin_event())
        return np.array(readouts), np.array(relations), np.array(records)


def open_bench_center(
    questions: Sequence[str],
    *,
    center: str | None = None,
    steering: str | Path | None = None,
    cache: str | Path | None = None,
    options: Mapping[str, Any] | None = None,
    prompt: "JudgePrompt | None" = None,
    weights: PosteriorWeights | None = None,
    scores: Scores | None = None,
    progress: Progress = silent,
) -> BenchCenter:
    """Load a center for the questions of all streams that will be judged or learned from.

    ``center`` is the name or folder of a model, ``steering`` a checkpoint that was trained for it, which
    brings its prompt. With a checkpoint alone its own model is taken; with a model alone there are only the
    rows ``base`` and ``zero-M``. ``options`` are more of ``Center.load``: device, dtype, device_map.
    ``scores`` are utilities that are known already; new ones are added as they are found.
    """
    from sigma_mem.center import Center
    from sigma_mem.center.load import cache_dir
    from sigma_mem.center.phi import cached_features
    from sigma_mem.center.prompt import JudgePrompt
    from sigma_mem.center.state_cache import open_cache
    from sigma_mem.center.trained import open_checkpoint

    folder = Path(cache) if cache is not None else cache_dir() / "states"
    given, texts = dict(options or {}), list(dict.fromkeys(questions))
    given["cache"] = open_cache(folder, given.pop("cache_gb", 8.0))
    if steering is None:
        asked = prompt or JudgePrompt()
        model, name = Center.load(center or "smollm2", prompt=asked, **given), center or "smollm2"
        judge, named, phis = repr((name, asked)), asked.names_peer, open_encoder("static").encode(texts)
        of_steering: dict[str, Any] = {"fast": None, "gamma": Settings().gamma, "rows": ("base", "zero-M")}
    else:
        trained = open_checkpoint(steering, center=center, **given)
        model, name = trained.center, trained.center.name
        judge, named = repr(trained.judge), trained.center.names_peer
        shown = partial(progress, "features")
        phis = trained.encoder.phi(cached_features(trained.encoder.source, texts, folder, progress=shown))
        of_steering = {"fast": trained.fast, "gamma": trained.gamma}
    known = Scores() if scores is None else scores  # an empty one is false
    return BenchCenter(
        name=name,
        steering=None if steering is None else str(steering),
        scorer=known.scorer(
            lambda pairs, readouts: model.judge_pairs(pairs, readouts).utility,
            judge,
            steering,
            partial(progress, "prompts"),
        ),
        phi=dict(zip(texts, phis, strict=True)),
        weights=weights or PosteriorWeights(),
        named=named,
        answer_tokens=model.writer.prompt.answer_tokens,
        **of_steering,
    )


def check_room_for_words(answer_tokens: int) -> None:
    """Raise if a record in words, which is read at the end of the answer, would be cut with it."""
    if answer_tokens < 48:
        raise InputError(f"got --words with --answer-tokens {answer_tokens}; expected at least 48")


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


def merged(
    rows: Mapping[str, TableRow], judged: Mapping[str, TableRow], places: Sequence[int]
) -> dict[str, TableRow]:
    """All rows on the judged events: those of the whole stream cut down to ``places``, then the center's."""
    return {**{name: row.at(places) for name, row in rows.items()}, **judged}


def better_than_sigma(rows: Mapping[str, TableRow], seed: int = 0) -> str:
    """One plain sentence: which rows that use no oracle are above ``sigma``, with paired intervals."""
    if "sigma" not in rows:
        return NO_SIGMA
    found = intervals({name: row.correct for name, row in rows.items()}, "sigma", seed=seed)
    above = [name for name in rows if name not in ORACLES and found[name].difference > 0]
    said = []
    for name in sorted(above, key=lambda name: -found[name].difference):
        i = found[name]
        interval = f"({100 * i.difference_low:+.2f} … {100 * i.difference_high:+.2f})"
        said.append(f"{name} {100 * i.difference:+.2f} points {interval}")
    return f"better than sigma, {rows['sigma'].accuracy:.2%}: {', '.join(said) or 'none'}"
