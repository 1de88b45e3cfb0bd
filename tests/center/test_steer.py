from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from sigma_mem.center.blocks import find_decoder, steered
from sigma_mem.center.errors import ModelShapeError
from sigma_mem.errors import InputError

from .families import BLOCKS, EVERY_FAMILY, WIDTH, tiny, token_ids


def block_inputs(model: Any, ids: Tensor) -> list[Tensor]:
    """What every block receives, after any hook that was there first."""
    seen: list[Tensor] = []

    def keep(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        seen.append(args[0] if args else kwargs["hidden_states"])

    handles = [b.register_forward_pre_hook(keep, with_kwargs=True) for b in find_decoder(model).blocks]
    try:
        model(ids)
    finally:
        for handle in handles:
            handle.remove()
    return seen


@pytest.mark.parametrize("family", EVERY_FAMILY)
def test_hooks_shift_exactly_the_inputs_of_the_upper_blocks(family: str) -> None:
    model, ids = tiny(family), token_ids(2, 11)
    blocks = find_decoder(model).blocks
    delta = torch.randn(2, WIDTH, generator=torch.Generator().manual_seed(1))
    plain = block_inputs(model, ids)
    outputs: list[Tensor] = []
    handles = [b.register_forward_hook(lambda _m, _a, out: outputs.append(out)) for b in blocks]
    with steered(blocks, delta):
        shifted = block_inputs(model, ids)
    for handle in handles:
        handle.remove()
    middle = BLOCKS // 2
    for i in range(middle):
        assert torch.equal(shifted[i], plain[i])
    assert torch.equal(shifted[middle], plain[middle] + delta[:, None])
    for i in range(middle + 1, BLOCKS):
        before = outputs[i - 1][0] if isinstance(outputs[i - 1], tuple) else outputs[i - 1]
        assert torch.equal(shifted[i], before + delta[:, None])


@pytest.mark.parametrize("family", EVERY_FAMILY)
def test_a_zero_shift_is_the_base_model_bit_for_bit(family: str) -> None:
    model, ids = tiny(family), token_ids(3, 9)
    base = model(ids).logits
    with steered(find_decoder(model).blocks, torch.zeros(3, WIDTH)):
        assert torch.equal(model(ids).logits, base)


@pytest.mark.parametrize("family", EVERY_FAMILY)
def test_hooks_are_gone_after_an_exception(family: str) -> None:
    model = tiny(family)
    blocks = find_decoder(model).blocks
    with pytest.raises(InputError, match="one shift per row"), steered(blocks, torch.ones(3, WIDTH)):
        model(token_ids(2, 5))
    assert all(not block._forward_pre_hooks for block in blocks)


def test_hooks_are_gone_when_registration_itself_fails() -> None:
    model = tiny("llama")
    blocks = find_decoder(model).blocks
    with pytest.raises(AttributeError), steered([*blocks[:-1], "not a block"], torch.ones(1, WIDTH)):  # type: ignore[list-item]
        pass
    assert all(not block._forward_pre_hooks for block in blocks)


def test_the_block_range_is_a_choice() -> None:
    model, ids = tiny("llama"), token_ids(1, 6)
    blocks, delta = find_decoder(model).blocks, torch.ones(1, WIDTH)
    plain = block_inputs(model, ids)
    with steered(blocks, delta, first=1, last=1):
        shifted = block_inputs(model, ids)
    assert torch.equal(shifted[0], plain[0])
    assert torch.equal(shifted[1], plain[1] + 1)
    assert not torch.equal(shifted[2], plain[2] + 1)


def test_only_the_last_token_can_be_shifted() -> None:
    model, ids = tiny("llama"), token_ids(2, 6)
    delta, lengths = torch.ones(2, WIDTH), torch.tensor([4, 6])
    plain = block_inputs(model, ids)
    with steered(find_decoder(model).blocks, delta, lengths=lengths):
        shifted = block_inputs(model, ids)
    moved = (shifted[BLOCKS // 2] - plain[BLOCKS // 2]).abs().amax(-1) > 0.5
    assert moved.nonzero().tolist() == [[0, 3], [1, 5]]


@pytest.mark.parametrize(("first", "last"), [(-1, None), (4, 3), (0, BLOCKS), (BLOCKS, None)])
def test_a_range_that_does_not_fit_is_refused(first: int, last: int | None) -> None:
    with (
        pytest.raises(InputError, match=f"does not fit a model of {BLOCKS} blocks"),
        steered(find_decoder(tiny("llama")).blocks, None, first=first, last=last),
    ):
        pass


def test_blocks_can_be_named() -> None:
    model = tiny("gpt2")
    assert find_decoder(model, "transformer.h").blocks == find_decoder(model).blocks
    with pytest.raises(ModelShapeError, match="dotted path of its list"):
        find_decoder(model, "transformer.nowhere")
    with pytest.raises(ModelShapeError, match="expected a non-empty ModuleList"):
        find_decoder(model, "transformer.wte")


def test_a_model_without_a_decoder_is_refused_with_a_remedy() -> None:
    with pytest.raises(ModelShapeError, match=r"blocks_path='transformer\.h'"):
        find_decoder(torch.nn.Sequential(torch.nn.Linear(2, 2)))
