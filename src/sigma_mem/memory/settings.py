"""The numbers that define a memory, recorded with it and never changed afterwards."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Literal, cast

from sigma_mem.errors import InputError

DecayBy = Literal["event", "labelled", "time"]

TRUSTED = ("default",)  # unless others are named
HORIZONS = (0.95, 0.99, 0.998, 0.9995)

_MIXING = 0.99  # decay of how well each horizon predicted
_TOPIC_MIXING = 0.995  # decay of how well each share of the topics predicted
_CROWD = 40.0  # P²/40: how many observations it takes to choose the best of many peers by φ


@dataclass(frozen=True, slots=True)
class Settings:
    """Decay, step sizes and prior of a memory.

    Attributes
    ----------
    gamma, eta : float
        γ and η of eq:sigma_mem_update. η = None means 1 − γ, so that ‖M‖₂ ≤ 1. A memory that is given γ
        has one horizon; otherwise γ is the slowest of the horizons.
    horizons : tuple of float
        Decay rates at which a peer's overall rate is kept, ascending. p̂ mixes them by how well each
        predicted lately. Four, unless γ is given.
    gamma_g, eta_g : float
        γ_G and η_G of eq:sigma_topology_update.
    decay : {"event", "labelled", "time"}
        What advances the decay axis: every decided event, every event that gets a label, or
        wall-clock time.
    half_life : float
        Seconds, with decay by "time"; it replaces γ and γ_G.
    prior, strength, prior_labels : float
        If little is known of a peer near φ, its prior is its overall rate. If little is known of it
        at all, its prior is the rate of the pool. Each prior counts for `strength` observations. The prior of
        a new pool is `prior`, which counts for `prior_labels`.
    text_features : bool
        Whether votes learn which features of an answer's text predict correctness.
    agreement : bool
        Whether agreement among peers moves the prior of p̂.
    regression : bool
        Whether p̂ mixes a regression on φ with the kernel mean, by how well each predicts.
    trusted : tuple of str
        Sources whose labels are taken as they are. Others are weighed by how they agree with them. By
        default ("default",); () trusts no source in particular.
    """

    gamma: float = cast(float, None)  # a number once __post_init__ is done
    eta: float | None = None
    gamma_g: float = 0.995
    eta_g: float = 0.005
    decay: DecayBy = "event"
    half_life: float | None = None
    prior: float = 0.5
    strength: float = 10.0
    prior_labels: float = 2.0
    text_features: bool = True
    horizons: tuple[float, ...] = ()
    agreement: bool = True
    regression: bool = True
    trusted: tuple[str, ...] = TRUSTED

    def __post_init__(self) -> None:
        _require(isinstance(self.horizons, Sequence), f"horizons are {self.horizons!r}; expected a tuple")
        self._resolve_horizons()
        object.__setattr__(self, "trusted", _checked_names(self.trusted))
        for name in ("text_features", "agreement", "regression"):
            given = getattr(self, name)
            _require(given in (True, False), f"{name} is {given!r}; expected True or False")
        numbers = ("gamma_g", "eta", "eta_g", "half_life", "prior", "strength", "prior_labels")
        named = [(name, getattr(self, name)) for name in numbers]
        for name, value in (*named, *(("gamma", gamma) for gamma in self.horizons)):
            absent = value is None and name in ("eta", "half_life")
            _require(absent or isinstance(value, Real), f"{name} is {value!r}; expected a number")
        for name, value in (("gamma_g", self.gamma_g), *(("gamma", gamma) for gamma in self.horizons)):
            _require(0.0 < value <= 1.0, f"{name} is {value!r}; expected a decay in (0, 1]")
        _require(
            list(self.horizons) == sorted(set(self.horizons)) and self.gamma == self.horizons[-1],
            f"horizons are {self.horizons} and gamma {self.gamma}; expected them ascending, gamma the last",
        )
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

    def _resolve_horizons(self) -> None:
        """Fill in gamma from the horizons, or the horizons from gamma."""
        horizons = self.horizons or (HORIZONS if self.gamma is None else (self.gamma,))
        object.__setattr__(self, "horizons", tuple(horizons))
        if self.gamma is None:
            object.__setattr__(self, "gamma", self.horizons[-1])

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
        return self.rate if self.half_life is not None else -math.log(self.gamma_g)

    @property
    def horizon_rates(self) -> tuple[float, ...]:
        """−log γ of every horizon, per tick of the decay axis."""
        return tuple(self._rate(gamma) for gamma in self.horizons)

    @property
    def n_claims(self) -> int:
        """Claims of a peer that are scored: of two estimators, and of every horizon if there are several."""
        several = len(self.horizons) + 1 if len(self.horizons) > 1 else 0
        return several + (2 if self.regression else 0)

    @property
    def mixing_rate(self) -> float:
        """Rate at which the record of each claim's predictions decays."""
        return self._rate(_MIXING)

    @property
    def topic_mixing_rate(self) -> float:
        """Rate at which the record of each topic share's predictions decays."""
        return self._rate(_TOPIC_MIXING)

    def local_strength(self, n_peers: int) -> float:
        """Prior strength of a peer's overall rate at a φ where little was seen.

        The largest of many noisy estimates is seldom the best peer, so it grows with a large pool.
        """
        return max(self.strength, n_peers**2 / _CROWD)

    def _rate(self, gamma: float) -> float:
        """By time, the slowest horizon has the half-life, and the others relate to it as their γ do."""
        if self.half_life is None:
            return -math.log(gamma)
        slow = math.log(self.gamma)
        return math.log(2.0) / self.half_life * (math.log(gamma) / slow if slow else 1.0)


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise InputError(message)


def _checked_names(trusted: Sequence[str]) -> tuple[str, ...]:
    several = isinstance(trusted, Iterable) and not isinstance(trusted, str)
    names = tuple(trusted) if several else ()
    _require(
        several and all(isinstance(name, str) and name for name in names) and len(set(names)) == len(names),
        f"trusted is {trusted!r}; expected a tuple of distinct names of sources",
    )
    return names
