"""How fast an event is scored, beside one plain forward with hooks per peer, in one run.

``sigma-mem center speed STREAM --peers a,b,c`` prints it for a recorded stream: real questions and answers
decide how much of a prompt the peers have in common.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from sigma_mem.center.batches import pad_ids
from sigma_mem.center.center import Center
from sigma_mem.center.steer import steered

__all__ = ["Speed", "measure"]

Pairs = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Speed:
    """Seconds per event, medians over events and rounds, all ways of one event measured in turn."""

    plain: float
    fresh: float
    cached: float
    plain_step: float
    step: float
    tokens: float
    shared: float

    @property
    def ratios(self) -> dict[str, float]:
        """How many times faster than plain: fresh, after only the memory changed, and a training step."""
        return {
            "fresh": self.plain / self.fresh,
            "memory changed": self.plain / self.cached,
            "training step": self.plain_step / self.step,
        }


def measure(center: Center, events: Sequence[Pairs], *, rounds: int = 3, threads: int = 1) -> Speed:
    """Time the ways of scoring each event; every way gives the same utilities, which is checked."""
    torch.set_num_threads(threads)
    shifts = [_shifts(center, len(pairs)) for pairs in events]
    times: dict[str, list[float]] = {name: [] for name in ("plain", "fresh", "cached", "plain_step", "step")}
    with tempfile.TemporaryDirectory() as folder:
        cached = Center(center.model, center.writer.tokenizer, prompt=center.writer.prompt, cache=folder)
        for pairs, delta in zip(events, shifts, strict=True):
            cached.utilities(pairs, delta)
        for _ in range(rounds):
            for pairs, delta in zip(events, shifts, strict=True):
                _agree(plain(center, pairs, delta), center.utilities(pairs, delta).utility)
                ways: dict[str, Callable[[], object]] = {
                    "plain": lambda p=pairs, d=delta: plain(center, p, d),  # type: ignore[misc]
                    "fresh": lambda p=pairs, d=delta: fresh(center, p, d),  # type: ignore[misc]
                    "cached": lambda p=pairs, d=delta: cached.utilities(p, d),  # type: ignore[misc]
                    "plain_step": lambda p=pairs, d=delta: plain_step(center, p, d),  # type: ignore[misc]
                    "step": lambda p=pairs, d=delta: step(cached, p, d),  # type: ignore[misc]
                }
                for name, way in ways.items():
                    times[name].append(_seconds(way))
    prompts = [[center.writer.row(*pair) for pair in pairs] for pairs in events]
    lengths = [len(row.ids) for rows in prompts for row in rows]
    shared = [row.shared / len(row.ids) for rows in prompts for row in rows]
    middle = {name: statistics.median(values) for name, values in times.items()}
    return Speed(**middle, tokens=statistics.mean(lengths), shared=statistics.mean(shared))


def plain(center: Center, pairs: Pairs, delta: Tensor) -> Tensor:
    """One forward of the whole model with hooks for each answer, all logits, as one would first write it."""
    with torch.no_grad():
        return torch.cat([_plain_row(center, pair, delta[i : i + 1]) for i, pair in enumerate(pairs)])


def fresh(center: Center, pairs: Pairs, delta: Tensor) -> Tensor:
    """Score an event that was never seen."""
    center.forget()
    return torch.from_numpy(center.utilities(pairs, delta).utility)


def plain_step(center: Center, pairs: Pairs, delta: Tensor) -> Tensor:
    """The gradient of the summed utilities by plain forwards."""
    delta = delta.clone().requires_grad_(True)
    for i, pair in enumerate(pairs):
        _plain_row(center, pair, delta[i : i + 1]).sum().backward()  # type: ignore[no-untyped-call]
    return _grad(delta)


def step(center: Center, pairs: Pairs, delta: Tensor) -> Tensor:
    """The same gradient through the upper half on cached lower states."""
    delta = delta.clone().requires_grad_(True)
    center.upper(center.rows(pairs), delta)[0].sum().backward()  # type: ignore[no-untyped-call]
    return _grad(delta)


def _plain_row(center: Center, pair: tuple[str, str], delta: Tensor) -> Tensor:
    ids = pad_ids([center.writer.row(*pair).ids], center.device)
    with steered(center.decoder.blocks, delta, first=center.first, last=center.last):
        logits = center.model(input_ids=ids).logits[:, -1].float()
    utility: Tensor = center.verdict.from_logits(logits)[0]
    return utility


def _shifts(center: Center, n: int) -> Tensor:
    values = torch.randn(n, center.hidden, generator=torch.Generator().manual_seed(n))
    unit: Tensor = values / torch.linalg.vector_norm(values, dim=1, keepdim=True)
    return (0.01 * center.h_median * unit).to(center.device)


def _grad(delta: Tensor) -> Tensor:
    if delta.grad is None:
        raise RuntimeError("no gradient reached the shift")
    grad: Tensor = delta.grad
    return grad


def _agree(plainly: Tensor, ours: object) -> None:
    torch.testing.assert_close(plainly.double().cpu(), torch.as_tensor(ours), rtol=1e-3, atol=1e-3)


def _seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start
