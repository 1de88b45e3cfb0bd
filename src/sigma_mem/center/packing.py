"""Packing: prompts of unequal length share one row, each attends to itself only, and nothing is padded.

On a CPU a forward reads every weight from memory, so one pass over all tokens of an event is faster than
a pass per prompt, while padding would cost more than that gains. Everything in a decoder but attention
works token by token: it is enough to take every attention apart, prompt by prompt. That is done where
all models meet, in ``scaled_dot_product_attention``, for the calling thread and while a ``with`` lasts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from torch.overrides import TorchFunctionMode

__all__ = ["KeepKeys", "Keys", "KeysKept", "LastQueries", "Segments", "positions", "spans"]


def spans(lengths: Sequence[int]) -> list[tuple[int, int]]:
    """Where each prompt begins and ends in the row.

    >>> spans([3, 1, 2])
    [(0, 3), (3, 4), (4, 6)]
    """
    ends = list(accumulate(lengths))
    return list(zip([0, *ends], ends, strict=False))


def positions(lengths: Sequence[int]) -> Tensor:
    """(1, tokens) position of every token in its own prompt."""
    return torch.cat([torch.arange(n) for n in lengths])[None]


@dataclass(frozen=True, slots=True)
class Keys:
    """Keys and values of a whole row in one block, and the mask of a single sequence of that length."""

    key: Tensor
    value: Tensor
    mask: Tensor | None


class KeysKept(Exception):
    """Ends a block as soon as its keys and values are known; for ``KeepKeys`` only."""


class _Attention(TorchFunctionMode, ABC):
    """Answer calls of ``scaled_dot_product_attention`` in their own way."""

    def __init__(self, lengths: Sequence[int]) -> None:
        super().__init__()
        self.spans = spans(lengths)

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func is scaled_dot_product_attention:
            return self._attend(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))

    @abstractmethod
    def _attend(
        self, query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, **rest: Any
    ) -> Tensor:
        """Attention of the row; its keyword names are torch's."""


class Segments(_Attention):
    """Every prompt of the row attends to itself.

    The model is to be run on one row, with ``positions`` and without hints that it holds several prompts:
    its mask is then that of one long sequence, whose upper left corner is the mask of a prompt alone,
    windows included.
    """

    def _attend(
        self, query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, **rest: Any
    ) -> Tensor:
        parts = []
        for start, end in self.spans:
            mask = None if attn_mask is None else attn_mask[..., : end - start, : end - start]
            q, k, v = (states[:, :, start:end] for states in (query, key, value))
            parts.append(scaled_dot_product_attention(q, k, v, attn_mask=mask, **rest))
        return _joined(parts)


class KeepKeys(_Attention):
    """Keep keys and values of the first attention that is asked for, and raise ``KeysKept``."""

    kept: Keys | None = None

    def _attend(
        self, query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, **rest: Any
    ) -> Tensor:
        self.kept = Keys(key, value, attn_mask)
        raise KeysKept


class LastQueries(_Attention):
    """The row holds the last token of every prompt, which attends to the kept keys of its own prompt."""

    def __init__(self, lengths: Sequence[int], kept: Keys) -> None:
        super().__init__(lengths)
        self.kept = kept

    def _attend(
        self, query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, **rest: Any
    ) -> Tensor:
        rest["is_causal"] = False  # the last token sees all of its prompt
        # A mask goes with repeated heads and no mask with grouped ones: as the kept keys are, not these.
        rest["enable_gqa"] = self.kept.key.shape[1] != query.shape[1]
        parts = []
        for i, (start, end) in enumerate(self.spans):
            n, mask = end - start, self.kept.mask
            parts.append(
                scaled_dot_product_attention(
                    query[:, :, i : i + 1],
                    self.kept.key[:, :, start:end],
                    self.kept.value[:, :, start:end],
                    attn_mask=None if mask is None else mask[..., n - 1 : n, :n],
                    **rest,
                )
            )
        return _joined(parts)


def _joined(parts: list[Tensor]) -> Tensor:
    # Token-major, as models want it next: joined by heads, the row would be copied twice.
    return torch.cat([part.transpose(1, 2) for part in parts], dim=1).transpose(1, 2)
