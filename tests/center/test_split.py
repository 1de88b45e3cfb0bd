from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from sigma_mem.center.batches import pad_ids
from sigma_mem.center.blocks import find_decoder, steered
from sigma_mem.center.lower_half import LowerHalf
from sigma_mem.center.prompt import PromptRow
from sigma_mem.center.split import Split
from sigma_mem.errors import InputError

from .families import BLOCKS, EVERY_FAMILY, VOCAB, WIDTH, tiny, token_ids


def shifts(rows: int, *, grad: bool = False) -> Tensor:
    values = torch.randn(rows, WIDTH, generator=torch.Generator().manual_seed(3)) * 0.1
    return values.requires_grad_(grad)


def assert_same(got: Tensor, want: Tensor) -> None:
    """Equal to rounding: what is computed is the same, but no kernel promises the same bits twice."""
    torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-6)


def value_and_gradient(run: Any, blocks: list[Any], at: int) -> tuple[Tensor, Tensor]:
    delta = shifts(3, grad=True)
    with steered(blocks, delta, first=at):
        final = run()
    final.square().sum().backward()
    assert delta.grad is not None
    return final.detach(), delta.grad


@pytest.mark.parametrize("family", EVERY_FAMILY)
def test_halves_equal_the_whole_in_value_and_gradient(family: str) -> None:
    model = tiny(family)
    decoder = find_decoder(model)
    split = Split(decoder)
    assert (split.works, split.at) == (True, BLOCKS // 2)
    ids = token_ids(3, 20)
    whole = value_and_gradient(lambda: split.whole(ids), decoder.blocks, split.at)
    halves = value_and_gradient(lambda: split.upper(split.lower(ids)), decoder.blocks, split.at)
    assert_same(whole[0], halves[0])
    assert_same(whole[1], halves[1])
    assert whole[1].abs().max() > 0


@pytest.mark.parametrize("family", EVERY_FAMILY)
def test_one_batch_equals_single_calls(family: str) -> None:
    model = tiny(family)
    split = Split(find_decoder(model))
    rows = [token_ids(1, n, seed=n)[0] for n in (9, 20, 14)]
    delta = shifts(3)
    with torch.no_grad(), steered(split.decoder.blocks, delta):
        together = split.upper(split.lower(pad_ids([row.tolist() for row in rows], "cpu")))
    for i, row in enumerate(rows):
        with torch.no_grad(), steered(split.decoder.blocks, delta[i : i + 1]):
            alone = split.whole(row[None])[0]
        torch.testing.assert_close(together[i, : len(row)], alone, rtol=1e-4, atol=1e-5)


def test_a_half_leaves_nothing_behind_when_it_fails() -> None:
    split = Split(find_decoder(tiny("llama")))
    hidden = split.lower(token_ids(1, 8))
    with pytest.raises(InputError), steered(split.decoder.blocks, torch.ones(2, WIDTH)):
        split.upper(hidden)
    assert all(not block._forward_pre_hooks for block in split.decoder.blocks)
    assert split._source.given is None
    assert_same(split.upper(hidden), split.whole(token_ids(1, 8)))


@pytest.mark.parametrize("family", EVERY_FAMILY)
def test_a_shared_prefix_gives_the_states_of_the_whole_prompt(family: str) -> None:
    split, opening = Split(find_decoder(tiny(family))), token_ids(1, 5)[0].tolist()
    prefix = [*opening, *token_ids(1, 18)[0].tolist()]
    ends = [token_ids(1, n, seed=n)[0].tolist() for n in (4, 30, 1)]
    for max_tokens in (0, 64):  # every end alone, and in padded batches
        lower = LowerHalf(split, torch.device("cpu"), max_tokens=max_tokens, opening=opening)
        # Hybrid models may or may not carry their linear attention over; they must only know.
        assert lower.shares or family == "qwen3.5"
        if not lower.shares:
            return
        head, attention = lower.prefix(prefix)
        found = lower.states(ends, len(prefix), attention)
        for end, states in zip(ends, found, strict=True):
            (want,) = lower.states([prefix + end])
            torch.testing.assert_close(torch.cat([head, states]), want, rtol=1e-4, atol=1e-4)


def test_states_do_not_depend_on_the_prompts_beside_them() -> None:
    split = Split(find_decoder(tiny("llama")))
    prompts = [PromptRow(tuple(token_ids(1, n, seed=3)[0].tolist()), 9) for n in (12, 14, 30)]
    together = LowerHalf(split, torch.device("cpu")).rows(prompts)
    for prompt, row in zip(prompts, together, strict=True):
        (alone,) = LowerHalf(split, torch.device("cpu")).rows([prompt])
        assert row.states is not None
        assert torch.equal(row.states, alone.states)


def test_the_split_shares_weights_and_leaves_the_model_alone() -> None:
    model = tiny("llama")
    ids = token_ids(2, 10)
    before, parameters = model(ids).logits, sum(p.numel() for p in model.parameters())
    split = Split(find_decoder(model))
    split.upper(split.lower(ids))
    assert torch.equal(model(ids).logits, before)
    assert sum(p.numel() for p in model.parameters()) == parameters
    ours = {p.data_ptr() for p in split._upper.parameters()}
    assert ours <= {p.data_ptr() for p in model.parameters()}


class Forgetful(torch.nn.Module):
    """A decoder whose upper blocks see something that the lower half does not hand on."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(VOCAB, WIDTH)
        self.layers = torch.nn.ModuleList(torch.nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def get_input_embeddings(self) -> torch.nn.Module:
        return self.embed

    def forward(
        self, input_ids: Tensor | None = None, inputs_embeds: Tensor | None = None, **_: Any
    ) -> tuple[Tensor]:
        hidden = first = self.embed(input_ids) if inputs_embeds is None else inputs_embeds
        for layer in self.layers:
            hidden = layer(hidden) + first
        return (hidden,)


def test_a_model_that_cannot_be_split_is_found_out() -> None:
    model = torch.nn.Module()
    model.model = Forgetful().requires_grad_(False)
    split = Split(find_decoder(model))
    assert not split.works
