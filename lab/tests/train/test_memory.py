"""The parallel form against the loop it stands for, in value and in gradient."""

import numpy as np
import torch

from sigma_lab.train.objective import memory_readouts, memory_scores
from sigma_mem.memory import Settings, SigmaState

GAMMA, T, P, RANK = 0.9, 24, 3, 5


def unit_rows(seed: int = 0) -> torch.Tensor:
    rows = torch.randn(T, RANK, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return rows / rows.norm(dim=1, keepdim=True)


def labels(seed: int = 1) -> torch.Tensor:
    drawn = torch.rand(T, P, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return torch.where(drawn < 0.5, -1.0, 1.0).double()


def by_loop(phi: torch.Tensor, c: torch.Tensor, reset: torch.Tensor | None = None) -> torch.Tensor:
    """eq:sigma_mem_update and eq:sigma_readout, event by event, the graph kept: full BPTT."""
    M = [torch.zeros(RANK, RANK, dtype=torch.float64) for _ in range(P)]
    out = []
    for t in range(T):
        if reset is not None:
            M = [m * 0 if reset[p] == t else m for p, m in enumerate(M)]
        out.append(torch.stack([m @ phi[t] for m in M]))
        M = [GAMMA * m + (1 - GAMMA) * c[t, p] * torch.outer(phi[t], phi[t]) for p, m in enumerate(M)]
    return torch.stack(out)


def test_readouts_equal_the_loop() -> None:
    phi, c = unit_rows(), labels()
    at = torch.tensor([0, 1, 7, 23])
    torch.testing.assert_close(memory_readouts(phi, c, at, GAMMA), by_loop(phi, c)[at], rtol=0, atol=1e-14)


def test_readouts_after_a_reset_equal_the_loop() -> None:
    phi, c, reset = unit_rows(), labels(), torch.tensor([0, 9, 20])
    at = torch.arange(T)
    got = memory_readouts(phi, c, at, GAMMA, reset)
    torch.testing.assert_close(got, by_loop(phi, c, reset), rtol=0, atol=1e-14)
    assert (got[9, 1] == 0).all()
    assert (got[8, 1] != 0).any()


def test_gradient_equals_back_propagation_through_time() -> None:
    raw = torch.randn(T, RANK, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    c, at = labels(), torch.tensor([5, 12, 23])
    target = torch.randn(len(at), P, RANK, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    gradients = []
    for form in (lambda f: memory_readouts(f, c, at, GAMMA), lambda f: by_loop(f, c)[at]):
        x = raw.clone().requires_grad_(True)
        phi = x / x.norm(dim=1, keepdim=True)
        (form(phi) * target).sum().backward()  # type: ignore[no-untyped-call]
        gradients.append(x.grad)
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-12, atol=1e-13)


def test_a_detached_memory_has_another_gradient() -> None:
    raw, c, at = unit_rows(5), labels(), torch.tensor([23])
    whole, detached = raw.clone().requires_grad_(True), raw.clone().requires_grad_(True)
    memory_readouts(whole, c, at, GAMMA).sum().backward()  # type: ignore[no-untyped-call]
    mixed = torch.cat([detached[:-1].detach(), detached[-1:]])
    memory_readouts(mixed, c, at, GAMMA).sum().backward()  # type: ignore[no-untyped-call]
    assert torch.cosine_similarity(whole.grad.flatten(), detached.grad.flatten(), dim=0) < 0.95


def test_it_is_the_memory_that_ships() -> None:
    phi, c = unit_rows(), labels()
    state = SigmaState(["a", "b", "c"], RANK, Settings(gamma=GAMMA))
    for t in range(T):
        shipped = state.readout(phi[t].numpy())
        np.testing.assert_allclose(
            memory_readouts(phi, c, torch.tensor([t]), GAMMA)[0].numpy(), shipped, atol=1e-12
        )
        state.write(phi[t].numpy(), c[t].numpy(), state.begin_event())


def test_scores_are_the_constant_coordinate_of_the_readout() -> None:
    phi, c, at = unit_rows(), labels(), torch.tensor([0, 3, 23])
    phi = torch.cat([0.8 * phi, torch.full((T, 1), 0.6, dtype=torch.float64)], dim=1)
    torch.testing.assert_close(
        0.6 * memory_scores(phi, c, at, GAMMA), memory_readouts(phi, c, at, GAMMA)[..., -1]
    )
