from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from sigma_mem.center.errors import CenterError, SteeringMismatchError
from sigma_mem.center.project import Steering, SteeringInfo
from sigma_mem.errors import InputError


def steering(gain: float = 0.02) -> Steering:
    made = Steering(
        16, 4, 150.0, gain=gain, info=SteeringInfo(model="m", fingerprint="f", prompt="p", first=3, last=5)
    )
    with torch.no_grad():
        made.projection.copy_(torch.randn(16, 4, generator=torch.Generator().manual_seed(0)) * 0.1)
    return made


def test_delta_is_the_papers_equation_in_units_of_the_median_norm() -> None:
    made = steering(gain=0.001)
    readouts = torch.randn(3, 4, generator=torch.Generator().manual_seed(1))
    want = torch.stack([0.001 * 150.0 * (made.projection @ r) for r in readouts])
    torch.testing.assert_close(made(readouts), want)


def test_the_norm_is_capped() -> None:
    delta = steering(gain=10.0)(torch.ones(2, 4) * torch.tensor([[1.0], [100.0]]))
    torch.testing.assert_close(delta.norm(dim=1), torch.full((2,), 0.03 * 150.0))


def test_a_zero_readout_gives_exactly_zero_with_a_defined_gradient() -> None:
    made = steering()
    delta = made(torch.zeros(2, 4))
    assert torch.equal(delta, torch.zeros(2, 16))
    delta.sum().backward()
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in made.parameters())


def test_a_steering_survives_a_file(tmp_path: Path) -> None:
    made, path = steering(), tmp_path / "s.safetensors"
    made.save(path)
    again = Steering.load(path)
    readouts = torch.ones(1, 4)
    assert torch.equal(made(readouts), again(readouts))
    assert (again.info, again.cap) == (made.info, made.cap)
    assert [file.name for file in tmp_path.iterdir()] == ["s.safetensors"]


def test_files_that_are_no_steering_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no steering checkpoint at"):
        Steering.load(tmp_path / "absent")
    (tmp_path / "text").write_text("hello, this is no safetensors file")
    with pytest.raises(CenterError, match="not a readable safetensors"):
        Steering.load(tmp_path / "text")
    save_file({"x": torch.ones(1)}, tmp_path / "other")
    with pytest.raises(CenterError, match="not a steering checkpoint"):
        Steering.load(tmp_path / "other")


@pytest.mark.parametrize(
    ("hidden", "fingerprint", "prompt", "says"),
    [
        (17, "f", "p", "hidden size 16"),
        (16, "g", "p", "other weights"),
        (16, "f", "q", "another judging prompt"),
    ],
)
def test_a_steering_for_another_center_is_refused(
    hidden: int, fingerprint: str, prompt: str, says: str
) -> None:
    with pytest.raises(SteeringMismatchError, match=says):
        steering().check(hidden=hidden, fingerprint=fingerprint, prompt=prompt, model="mine")
    steering().check(hidden=16, fingerprint="f", prompt="p", model="m")


def test_readouts_of_another_rank_are_refused() -> None:
    with pytest.raises(InputError, match=r"expected \(rows, 4\)"):
        steering()(torch.zeros(2, 5))
