"""Unsupervised aggregation of answers: Dawid–Skene with one coin, and GLAD, by expectation–maximisation.

They see all answers of a stream at once and no label: offline and in hindsight, unlike any mechanism here.
Open answers have no fixed set of classes, so answers are numbered per event, among as many classes
as there are peers: a right answer is given with the peer's skill, every wrong class equally often. An answer
that cannot be read is no evidence. Both are the models of crowd-kit, and were compared with it.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sigma_mem.events import FloatArray

_ROUNDS = 50
_GLAD_ROUNDS = 5  # crowd-kit's own stopping rule ends after two to five
_INNER = 5  # Newton steps of GLAD per round
_EPS = 1e-10  # how near a skill may be to 0 and 1


class AnswerPosterior(NamedTuple):
    """What a model believes in the end: how likely every peer's answer is right, (T, P), and its skill."""

    prob: FloatArray
    skill: FloatArray


class _Answers:
    """Which peers gave the same answer, in the form that an expectation step needs."""

    def __init__(self, groups: NDArray[np.intp]) -> None:
        self.readable = groups >= 0
        equal = (groups[:, :, None] == groups[:, None, :]) & self.readable[:, :, None]
        self._same = equal.astype(np.float64)
        self.size = np.maximum(self._same.sum(axis=2), 1.0)
        self.classes = max(groups.shape[1], 2)
        given = (self.readable / self.size).sum(axis=1, keepdims=True)  # distinct answers
        self._unseen = np.maximum(self.classes - given, 0.0)

    def share(self) -> FloatArray:
        """The share of the readable peers that gave each answer: where both models start."""
        count = np.maximum(self.readable.sum(axis=1, keepdims=True), 1)
        shares: FloatArray = np.where(self.readable, self.size / count, 0.0)
        return shares

    def posterior(self, log_odds: FloatArray) -> FloatArray:
        """How likely every answer is, if a vote for it weighs so much more than one for another class."""
        votes = np.where(self.readable, log_odds + np.log(self.classes - 1), 0.0)
        total = np.matmul(self._same, votes[:, :, None])[:, :, 0]
        top = np.maximum(np.where(self.readable, total, 0.0).max(axis=1, keepdims=True), 0.0)
        each = np.where(self.readable, np.exp(total - top), 0.0)
        every = (each / self.size).sum(axis=1, keepdims=True) + self._unseen * np.exp(-top)
        out: FloatArray = each / every
        return out


def dawid_skene(groups: NDArray[np.intp], rounds: int = _ROUNDS) -> AnswerPosterior:
    """One coin per peer: its skill is the mean probability that its answers are right.

    ``groups`` (T, P) are answer groups, numbered per event; negative if an answer cannot be read.

    >>> dawid_skene(np.array([[0, 0, 1], [0, 0, 1], [0, 1, 0], [0, 0, 1]])).prob.round()[0].tolist()
    [1.0, 1.0, 0.0]
    """
    answers = _Answers(groups)
    prob = answers.share()
    for _ in range(rounds):
        skill = prob.sum(axis=0) / np.maximum(answers.readable.sum(axis=0), 1)
        skill = np.clip(skill, _EPS, 1.0 - _EPS)
        prob = answers.posterior(np.log(skill / (1.0 - skill)))
    return AnswerPosterior(prob, skill)


def glad(groups: NDArray[np.intp], rounds: int = _GLAD_ROUNDS) -> AnswerPosterior:
    """Peers have an ability α and events an ease e^β: an answer is right with probability 1/(1 + e^(−αe^β)).

    α and β have normal priors with mean and deviation 1. The parameter is that of `dawid_skene`.

    >>> found = glad(np.array([[0, 0, 1], [0, 0, 1], [0, 1, 0], [0, 0, 1]]))
    >>> int(found.skill.argmax())
    0
    """
    answers = _Answers(groups)
    ability, ease = np.ones(groups.shape[1]), np.ones((len(groups), 1))
    prob = answers.posterior(ability * np.exp(ease))
    for _ in range(rounds):
        for _ in range(_INNER):
            ability = ability + _step(answers, prob, ability, ease, np.exp(ease), 0, 1.0 - ability)
            slope = ability * np.exp(ease)
            ease = ease + _step(answers, prob, ability, ease, slope, 1, 1.0 - ease[:, 0])[:, None]
        prob = answers.posterior(ability * np.exp(ease))
    return AnswerPosterior(prob, ability)


def _step(
    answers: _Answers,
    prob: FloatArray,
    ability: FloatArray,
    ease: FloatArray,
    slope: FloatArray,
    axis: int,
    prior: FloatArray,
) -> FloatArray:
    """A Newton step of α (axis 0) or β (axis 1), never longer than 1; `slope` is the derivative of αe^β."""
    right = 1.0 / (1.0 + np.exp(-np.clip(ability * np.exp(ease), -30.0, 30.0)))
    gradient = (answers.readable * (prob - right) * slope).sum(axis=axis) + prior
    curvature = (answers.readable * right * (1.0 - right) * slope**2).sum(axis=axis) + 1.0
    step: FloatArray = np.clip(gradient / curvature, -1.0, 1.0)
    return step


AGGREGATIONS: Mapping[str, Callable[[NDArray[np.intp]], AnswerPosterior]] = {
    "dawid-skene": dawid_skene,
    "glad": glad,
}


def aggregated(groups: NDArray[np.intp]) -> dict[str, NDArray[np.intp]]:
    """The peer that each model chooses at every event: the most skilled of those with the likeliest answer.

    −1 if no answer can be read.
    """
    found = {}
    for name, fit in AGGREGATIONS.items():
        prob, skill = fit(groups)
        best = prob.max(axis=1, keepdims=True)
        among = np.where((prob == best) & (groups >= 0), skill, -np.inf)
        found[name] = np.where((groups >= 0).any(axis=1), among.argmax(axis=1), -1)
    return found
