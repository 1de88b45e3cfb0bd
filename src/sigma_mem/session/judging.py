"""Selection by a center: its judgement of every answer, and the posterior with G over them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from sigma_mem.decide.select import normalized_utility, posterior
from sigma_mem.errors import InputError, MissingExtraError
from sigma_mem.events import Answer, FloatArray
from sigma_mem.memory import SigmaState
from sigma_mem.session.choices import Choice

__all__ = ["Center", "Judged", "by_name", "select"]


class Judged(Protocol):
    """Utilities of the peers' answers, and the probability mass on Yes and No behind them."""

    @property
    def utility(self) -> FloatArray:
        """U of every answer, shape (P,)."""
        ...

    @property
    def yes_no_mass(self) -> FloatArray:
        """P(Yes) + P(No) of every answer, shape (P,)."""
        ...


class Center(Protocol):
    """A frozen model that judges answers, steered by what the memory reads out."""

    def judge(self, question: str, answers: Sequence[str], readouts: FloatArray) -> Judged:
        """U of every answer, with its peer's readout M_pφ projected into the model."""
        ...


def select(
    center: Center | None, question: str, phi: FloatArray, answers: Mapping[str, Answer], state: SigmaState
) -> Choice:
    """The peer with the largest posterior expectation, and what is worth keeping of the judgement.

    eq:sigma_peer_utility by the center, then eq:sigma_normalized_utility,
    eq:sigma_topology_posterior and eq:sigma_peer_select over the peers that answered.
    """
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
    judged = center.judge(question, [answers[peer].text for peer in peers], state.readout(phi)[rows])
    z = normalized_utility(judged.utility)
    result = posterior(z, state.G[np.ix_(rows, rows)])
    details: dict[str, Any] = {
        "utility": by_name(peers, judged.utility),
        "z": by_name(peers, z),
        "yes_no_mass": by_name(peers, judged.yes_no_mass),
        "posterior": by_name(peers, 0.5 + 0.5 * result.expectation),
        "posterior_method": result.method,
    }
    return Choice("select", rows[result.peer], details["posterior"][peers[result.peer]], details=details)


def by_name(names: Sequence[str], values: FloatArray) -> dict[str, float]:
    """An array as a mapping by name."""
    return dict(zip(names, values.tolist(), strict=True))
