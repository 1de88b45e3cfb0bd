"""The numbers that define a memory, recorded with it and never changed afterwards."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from sigma_mem.errors import InputError

DecayBy = Literal["event", "labelled", "time"]

_RENAMED = {"signs": "text_features"}  # keys of version 0.1


@dataclass(frozen=True, slots=True)
class Settings:
    """Decay, step sizes and prior of a memory.

    Attributes
    ----------
    gamma, eta : float
        γ and η of eq:sigma_mem_update. η = None means 1 − γ, so that ‖M‖₂ ≤ 1.
    gamma_g, eta_g : float
        γ_G and η_G of eq:sigma_topology_update.
    decay : {"event", "labelled", "time"}
        What moves the decay axis on: every decided event, every event that gets a label, or
        wall-clock time. With "time" half_life (seconds) takes the place of γ and γ_G.
    prior, strength, prior_labels : float
        A peer of which little is known near φ is taken to be right with its overall rate, and one of
        which little is known at all with that of the pool, each with a prior strength of `strength`
        observations; a pool of which nothing is known is right with rate `prior`, worth `prior_labels`.
    text_features : bool
        Whether votes learn which features of an answer's text predict correctness.
    """

    gamma: float = 0.9995
    eta: float | None = None
    gamma_g: float = 0.995
    eta_g: float = 0.005
    decay: DecayBy = "event"
    half_life: float | None = None
    prior: float = 0.5
    strength: float = 5.0
    prior_labels: float = 2.0
    text_features: bool = True

    def __post_init__(self) -> None:
        for name, value in (("gamma", self.gamma), ("gamma_g", self.gamma_g)):
            _require(0.0 < value <= 1.0, f"{name} is {value!r}; expected a decay in (0, 1]")
        for name, step in (
            ("eta", self.eta),
            ("eta_g", self.eta_g),
            ("strength", self.strength),
            ("prior_labels", self.prior_labels),
        ):
            _require(step is None or 0.0 < step < math.inf, f"{name} is {step!r}; expected a positive number")
        _require(0.0 < self.prior < 1.0, f"prior is {self.prior!r}; expected a probability in (0, 1)")
        _require(
            self.decay in ("event", "labelled", "time"),
            f"decay is {self.decay!r}; expected 'event', 'labelled' or 'time'",
        )
        timed = self.decay == "time"
        valid = self.half_life is not None and 0.0 < self.half_life < math.inf
        _require(
            valid if timed else self.half_life is None,
            f"half_life is {self.half_life!r} with decay={self.decay!r}; "
            "expected seconds with decay='time' and None otherwise",
        )

    @classmethod
    def from_record(cls, values: Mapping[str, Any]) -> Settings:
        """Settings as a ledger keeps them, written by this version or an earlier one."""
        return cls(**{_RENAMED.get(key, key): value for key, value in values.items()})

    @property
    def step(self) -> float:
        """η as a number."""
        if self.eta is not None:
            return self.eta
        return 1.0 - self.gamma if self.gamma < 1.0 else 1.0

    @property
    def rate(self) -> float:
        """−log γ per tick of the decay axis."""
        return self._rate(self.gamma)

    @property
    def rate_g(self) -> float:
        """−log γ_G per tick of the decay axis."""
        return self._rate(self.gamma_g)

    def _rate(self, gamma: float) -> float:
        return math.log(2.0) / self.half_life if self.half_life is not None else -math.log(gamma)


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise InputError(message)
