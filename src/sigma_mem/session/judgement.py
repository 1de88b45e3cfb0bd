"""What `select` needs of a center model: its judgement of the answers, under the memory's steering."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from sigma_mem.decide.posterior import EXACT_PEERS, normalized_utility
from sigma_mem.errors import InputError, MissingExtraError
from sigma_mem.events import Answer, FloatArray
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

        Where the center's ``names_peer`` is true, ``peers`` are the names of the answers' peers.
        """
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
