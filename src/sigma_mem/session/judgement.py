"""Judges of answers: a center model under the memory's steering, which `select` needs, and other judges.

Other judges are asked outside of the memory's lock, and only if their verdict may change a choice.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from sigma_mem.answers.features import Answers
from sigma_mem.decide import View
from sigma_mem.decide.panel import LEAST_GAIN, judge_gain
from sigma_mem.decide.posterior import EXACT_PEERS, normalized_utility
from sigma_mem.errors import InputError, MissingExtraError
from sigma_mem.events import Answer, FloatArray, Verdict
from sigma_mem.memory import SigmaState


class Utilities(Protocol):
    """Utilities of the peers' answers, and the probability mass on Yes and No behind them."""

    @property
    def utility(self) -> FloatArray:
        """U of every answer, shape (P,)."""
        ...

    @property
    def yes_no_mass(self) -> FloatArray:
        """P(Yes) + P(No) of every answer, shape (P,)."""
        ...


class JudgingCenter(Protocol):
    """A frozen model that judges answers, steered by what the memory reads out."""

    def judge(
        self, question: str, answers: Sequence[str], readouts: FloatArray, **named: Sequence[str]
    ) -> Utilities:
        """U of every answer, with its peer's readout M_pφ projected into the model.

        If the center's ``names_peer`` is true, ``peers`` are the names of the answers' peers.
        """
        ...


class Judge(Protocol):
    """Anything that scores answers. A failure is part of the verdict, never an exception."""

    @property
    def name(self) -> str:
        """Under which a memory learns what its score is worth."""
        ...

    def is_worth(self, gain: float, answers: int) -> bool:
        """Whether to ask it about this many answers if that makes a right choice likelier by `gain`."""
        ...

    def judge(
        self, question: str, answers: Mapping[str, str], records: Mapping[str, tuple[float, float]]
    ) -> Verdict:
        """Score the answers, peer → text; records are p̂ of each peer and the labels behind it."""
        ...


def judge_answers(
    center: JudgingCenter | None,
    question: str,
    phi: FloatArray,
    answers: Mapping[str, Answer],
    state: SigmaState,
) -> tuple[FloatArray, dict[str, Any]]:
    """U of every peer (eq:sigma_peer_utility), NaN without an answer; and what to keep of the judgement."""
    if center is None:
        raise MissingExtraError(
            "select needs a center model, and this memory was opened without one: install it with "
            "pip install 'sigma-mem[center]' and open SigmaMem(..., center=Center.load(\"smollm2\")), "
            "with Center from sigma_mem.center"
        )
    peers = [peer for peer, answer in answers.items() if answer.text]
    if not peers:
        raise InputError("no peer gave an answer; expected at least one text to judge")
    rows = [state.peers.index(peer) for peer in peers]
    named = {"peers": peers} if getattr(center, "names_peer", False) else {}
    judged = center.judge(question, [answers[peer].text for peer in peers], state.readout(phi)[rows], **named)
    utility: FloatArray = np.full(len(state.peers), np.nan)
    utility[rows] = judged.utility
    kept = {
        "utility": judged.utility,
        "z": normalized_utility(judged.utility),
        "yes_no_mass": judged.yes_no_mass,
    }
    return utility, {key: dict(zip(peers, x.tolist(), strict=True)) for key, x in kept.items()}


def posterior_details(state: SigmaState, expectation: FloatArray) -> dict[str, Any]:
    """P(right) of every judged peer, and how it was computed."""
    judged = {peer: 0.5 + 0.5 * e for peer, e in state.by_peer(expectation).items() if e == e}
    method = "exact" if len(judged) <= EXACT_PEERS else "belief-propagation"
    return {"posterior": judged, "posterior_method": method}


def consult(
    judges: Sequence[Judge],
    question: str,
    answers: Answers,
    view: View,
    powers: Mapping[str, float],
    records: Mapping[str, tuple[float, float]],
) -> tuple[Answers, dict[str, Any]]:
    """The answers with the verdicts of judges, and what to keep of those: cost, seconds, failures.

    A judge is asked if the expected gain (`judge_gain`) is worth its price. Several are asked at once.

    Parameters
    ----------
    view : View
        What the memory knows before anyone is asked.
    powers : mapping
        Of every judge at this task; see `Verdicts.powers`.
    records : mapping
        p̂ of every peer, and how many labels stand behind it.
    """
    texts = {peer: answer.text for peer, answer in answers.by_peer.items() if answer.canon is not None}
    asked: list[Judge] = []
    kept: dict[str, Any] = {}
    for judge in judges:
        if judge.name in answers.verdicts:
            continue
        gain = judge_gain(view.vote_totals, view.alternatives, powers[judge.name])
        kept[judge.name] = {"gain": round(gain, 4)}
        if gain >= LEAST_GAIN and judge.is_worth(gain, len(texts)):
            asked.append(judge)
    if not asked:
        return answers, kept
    from concurrent.futures import ThreadPoolExecutor  # few memories need it

    with ThreadPoolExecutor(len(asked)) as threads:
        found: list[Verdict] = list(threads.map(lambda judge: judge.judge(question, texts, records), asked))
    said = {**answers.verdicts}
    for judge, verdict in zip(asked, found, strict=True):
        kept[judge.name] |= {"cost": verdict.cost, "seconds": round(verdict.seconds, 3)}
        scores = {peer: float(u) for peer, u in verdict.scores.items() if peer in texts and _is_score(u)}
        failures = [*verdict.failures]
        if len(scores) < len(verdict.scores):
            failures.append("some scores are no finite numbers, or of no answer")
        if failures:
            kept[judge.name]["failures"] = failures
        if scores:
            said[judge.name] = scores
    return answers._replace(verdicts=said), kept


def _is_score(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)
