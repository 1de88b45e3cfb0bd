"""From a memory readout to a shift of the residual stream: δ_p = g·P·M_pφ (eq:sigma_delta)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from sigma_mem.center.checkpoint import read_arrays, write_arrays
from sigma_mem.center.errors import SteeringMismatchError
from sigma_mem.errors import InputError

_FORMAT = "sigma-mem steering 1"


@dataclass(frozen=True, slots=True)
class SteeringInfo:
    """Which center, encoder and prompt a steering was learned for; empty strings are not checked.

    ``details`` is what the trainer noted, as JSON: stream hash, settings, held-out losses.
    """

    model: str = ""
    fingerprint: str = ""
    encoder: str = ""
    prompt: str = ""
    first: int = -1
    last: int = -1
    details: Mapping[str, Any] = field(default_factory=dict)


class Steering(nn.Module):
    """A learned projection P and gain g, in units of the center's median hidden norm.

    δ = g · h_median · P · r, with ‖δ‖ at most ``cap`` · h_median: the effect of a shift is linear up to
    about 1 % of the median norm and saturates by 3 %.

    ``hidden`` and ``rank`` are d of the center and r of the memory; ``h_median`` is the median norm of the
    hidden states that reach the first steered block (``Center.h_median``). P starts at zero, so g must not.
    """

    h_median: Tensor

    def __init__(
        self,
        hidden: int,
        rank: int,
        h_median: float,
        *,
        gain: float = 0.01,
        cap: float = 0.03,
        info: SteeringInfo | None = None,
    ) -> None:
        super().__init__()
        if not (h_median > 0 and cap > 0):
            raise InputError(f"h_median is {h_median} and cap is {cap}; expected both above zero")
        self.projection = nn.Parameter(torch.zeros(hidden, rank))
        self.gain = nn.Parameter(torch.tensor(float(gain)))
        self.register_buffer("h_median", torch.tensor(float(h_median)))
        self.cap = float(cap)
        self.info = info or SteeringInfo()
        self.hidden, self.rank = hidden, rank
        # Saved with P and g, but no part of δ: the learned φ, and w of the fast read.
        self.beside: Mapping[str, Tensor] = {}

    def forward(self, readouts: Tensor) -> Tensor:
        """(n, r) readouts M_pφ → (n, d) shifts δ; a zero readout gives exactly zero."""
        if readouts.ndim != 2 or readouts.shape[1] != self.rank:
            raise InputError(f"readouts have shape {tuple(readouts.shape)}; expected (rows, {self.rank})")
        readouts = readouts.to(device=self.projection.device, dtype=self.projection.dtype)
        delta = self.gain * self.h_median * (readouts @ self.projection.T)  # eq:sigma_delta
        # Clamped below so that the gradient of the norm at zero is zero and not undefined.
        norm = torch.linalg.vector_norm(delta, dim=-1, keepdim=True).clamp_min(1e-12)
        limited: Tensor = delta * (self.cap * self.h_median / norm).clamp(max=1.0)
        return limited

    def save(self, path: str | Path) -> None:
        """Write P, g, what is ``beside`` them and what they were learned for as one safetensors file."""
        tensors = {**self.state_dict(), **self.beside}
        info = {name: str(getattr(self.info, name)) for name in SteeringInfo.__slots__ if name != "details"}
        meta = {"format": _FORMAT, "cap": repr(self.cap), **info, "extra": json.dumps(self.info.details)}
        write_arrays(path, {name: value.detach().cpu().numpy() for name, value in tensors.items()}, meta)

    @classmethod
    def load(cls, path: str | Path) -> Steering:
        """Read a steering that ``save`` wrote."""
        arrays, meta = read_arrays(path, "steering checkpoint", "sigma-mem train steering", form=_FORMAT)
        info = SteeringInfo(
            **{name: meta[name] for name in ("model", "fingerprint", "encoder", "prompt")},
            first=int(meta["first"]),
            last=int(meta["last"]),
            details=json.loads(meta["extra"]),
        )
        tensors = {name: torch.from_numpy(value) for name, value in arrays.items()}
        hidden, rank = tensors["projection"].shape
        steering = cls(hidden, rank, float(tensors["h_median"]), cap=float(meta["cap"]), info=info)
        own = steering.state_dict()
        steering.load_state_dict({name: tensors.pop(name) for name in own})
        steering.beside = tensors
        return steering

    def check(self, *, hidden: int, fingerprint: str, prompt: str, model: str) -> None:
        """Raise SteeringMismatchError unless this steering was learned for this center and prompt."""
        if self.hidden != hidden or self.info.fingerprint not in ("", fingerprint):
            raise SteeringMismatchError(
                f"the steering checkpoint was learned for {self.info.model or 'a model'} of hidden size "
                f"{self.hidden}, but the center is {model} of hidden size {hidden} with other weights; "
                "load that model or train a steering for this one"
            )
        if self.info.prompt not in ("", prompt):
            raise SteeringMismatchError(
                "the steering checkpoint was learned with another judging prompt: "
                f"got {prompt}, expected {self.info.prompt}"
            )
