"""What is learned through the frozen model: W, P and g, from labels to utilities in one graph."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from sigma_lab.train.steering.data import Episode, IntArray, TrainingStream
from sigma_lab.train.steering.loss import listwise
from sigma_lab.train.steering.memory import memory_readouts, phi_of
from sigma_mem.center.center import Center, Pairs
from sigma_mem.center.phi import PhiMap
from sigma_mem.center.project import Steering
from sigma_mem.events import FloatArray


class Learner(nn.Module):
    """W of φ, learned in stage 1, and P and g of the steering, over one training stream."""

    def __init__(
        self, center: Center, data: TrainingStream, phi: PhiMap, *, gamma: float, cap: float
    ) -> None:
        super().__init__()
        self.center, self.data, self.gamma, self._phi = center, data, gamma, phi
        self.weight = nn.Parameter(torch.from_numpy(phi.weight).float())
        # Selection uses U within an event, whatever its scale (eq:sigma_normalized_utility). A loss on U
        # as it is would hold the memory's part to the log-odds it deserves, often less than the judge's own
        # noise; under a learned temperature memory and judge are only weighed against each other.
        self.log_temperature = nn.Parameter(torch.tensor(math.log(4.0)))
        self.steering = Steering(center.hidden, phi.rank, center.h_median, gain=0.0, cap=cap)
        self.lift = torch.zeros(phi.rank)
        self._x = torch.from_numpy((data.features - phi.mean) @ phi.whiten.T).float()

    def start(self, reading: FloatArray, direction: Tensor) -> None:
        """Set P = u·wᵀ and leave g at zero, so that learning begins at the base judge and yet has a gradient.

        With the reading w (rank,), wᵀM_pφ already distinguishes right from wrong (`start_reading`); u is the
        unit vector along the direction (d,), the mean gradient of U with respect to δ.
        """
        direction = direction.float().cpu()
        unit = normalize(direction, dim=0)
        with torch.no_grad():
            self.steering.projection.copy_(torch.outer(unit, torch.from_numpy(reading).float()))
        # To first order, what one unit of g adds to U of a readout r is liftᵀr.
        self.lift = self.center.h_median * (self.steering.projection.detach().T @ direction)

    @property
    def phi(self) -> PhiMap:
        """φ as it is now."""
        return replace(self._phi, weight=self.weight.detach().double().numpy().copy())

    def readouts(self, episode: Episode, at: IntArray) -> Tensor:
        """(B, S, rank) M_pφ of every seat before some places of an episode."""
        phi = phi_of(self._x[torch.from_numpy(episode.events)], self.weight, self._phi.const)
        written, reset = torch.from_numpy(episode.written).float(), torch.from_numpy(episode.reset)
        return memory_readouts(phi, written, torch.from_numpy(at), self.gamma, reset)

    def utility(self, episode: Episode, at: IntArray, readouts: Tensor) -> Tensor:
        """(B, S) U of every seat, steered by these readouts, over the temperature."""
        rows = self.center.rows(self.data.pairs(episode, at))
        delta = self.steering(readouts.flatten(0, 1))
        utility = self.center.upper(rows, delta)[0].cpu().reshape(readouts.shape[:2])
        return utility / self.log_temperature.exp()

    def losses(self, episode: Episode, at: IntArray) -> tuple[Tensor, Tensor, Tensor]:
        """Listwise losses (B,), utilities (B, S) and which seats are right (B, S)."""
        utility = self.utility(episode, at, self.readouts(episode, at))
        right = right_at(episode, at)
        return listwise(utility, right), utility, right


def right_at(episode: Episode, at: IntArray) -> Tensor:
    """(B, S) which seats are right at some places of an episode."""
    return torch.from_numpy(episode.labels[at] > 0)


def mean_gradient(center: Center, pairs: Pairs) -> Tensor:
    """(d,) mean over pairs of ∂U/∂δ at δ = 0; it hardly depends on content."""
    rows = center.rows(pairs)
    delta = torch.zeros(len(rows), center.hidden, device=center.device, requires_grad=True)
    utility, _ = center.upper(rows, delta)
    (gradient,) = torch.autograd.grad(utility.sum(), delta)
    return gradient.mean(dim=0).cpu()
