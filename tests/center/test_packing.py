from __future__ import annotations

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from sigma_mem.center.packing import KeepKeys, KeysKept, LastQueries, Segments, positions, spans

LENGTHS = (3, 1, 6)


def heads(tokens: int, count: int, seed: int) -> torch.Tensor:
    return torch.randn(1, count, tokens, 8, generator=torch.Generator().manual_seed(seed))


def window(n: int, size: int) -> torch.Tensor:
    """The mask of one sequence of ``n`` tokens that see ``size`` tokens back."""
    at, to = torch.arange(n)[:, None], torch.arange(n)
    return ((to <= at) & (to > at - size))[None, None]


def naive(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, size: int) -> torch.Tensor:
    """One mask over the whole row, made token by token."""
    seen = torch.zeros(query.shape[2], key.shape[2], dtype=torch.bool)
    for start, end in spans(LENGTHS):
        for q in range(start, end):
            for k in range(start, end):
                seen[q, k] = 0 <= q - k < size
    return scaled_dot_product_attention(query, key, value, attn_mask=seen)


@pytest.mark.parametrize("size", [99, 2])
def test_a_prompt_sees_itself_only(size: int) -> None:
    n = sum(LENGTHS)
    query, key, value = heads(n, 2, 0), heads(n, 2, 1), heads(n, 2, 2)
    with Segments(LENGTHS):
        found = scaled_dot_product_attention(query, key, value, attn_mask=window(n, size))
    torch.testing.assert_close(found, naive(query, key, value, size))


def test_no_mask_is_a_causal_row_also_with_grouped_heads() -> None:
    n = sum(LENGTHS)
    query, key, value = heads(n, 4, 0), heads(n, 2, 1), heads(n, 2, 2)
    with Segments(LENGTHS):
        found = scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
    repeated = [states.repeat_interleave(2, dim=1) for states in (key, value)]
    torch.testing.assert_close(found, naive(query, *repeated, size=99))


@pytest.mark.parametrize("size", [None, 2])
def test_last_tokens_attend_to_kept_keys(size: int | None) -> None:
    n = sum(LENGTHS)
    query, key, value = heads(n, 2, 0), heads(n, 2, 1), heads(n, 2, 2)
    mask = None if size is None else window(n, size)
    with KeepKeys([n]) as keep, pytest.raises(KeysKept):
        scaled_dot_product_attention(query, key, value, attn_mask=mask, is_causal=mask is None)
    assert keep.kept is not None
    last = [end - 1 for _, end in spans(LENGTHS)]
    with LastQueries(LENGTHS, keep.kept):
        found = scaled_dot_product_attention(
            query[:, :, last], key[:, :, last], value[:, :, last], is_causal=True
        )
    torch.testing.assert_close(found, naive(query, key, value, size or 99)[:, :, last])


def test_attention_is_torchs_own_again_afterwards() -> None:
    query = heads(5, 2, 0)
    before = scaled_dot_product_attention(query, query, query, is_causal=True)
    with pytest.raises(ValueError, match="stop"), Segments([2, 3]):
        raise ValueError("stop")
    assert torch.equal(scaled_dot_product_attention(query, query, query, is_causal=True), before)


def test_positions_begin_anew_with_every_prompt() -> None:
    assert positions([2, 3]).tolist() == [[0, 1, 0, 1, 2]]
