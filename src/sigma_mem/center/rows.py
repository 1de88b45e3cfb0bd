"""Prompts with their lower-half states, the same whoever the peer and whatever the memory."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from sigma_mem.center.cache import StateCache, state_key
from sigma_mem.center.prefix import PrefixedLower
from sigma_mem.center.prompt import PromptRow

__all__ = ["LowerHalf", "Row"]


@dataclass(frozen=True, slots=True)
class Row:
    """One prompt: its token ids and the (T, d) input of the first upper block.

    ``states`` is None where the model cannot be split exactly: then the whole model runs every time.
    """

    ids: tuple[int, ...]
    states: Tensor | None

    def __len__(self) -> int:
        return len(self.ids)


class LowerHalf:
    """Make rows: from the disk cache where they are known, else by the lower blocks, sharing prefixes.

    Parameters
    ----------
    recent
        How many prefixes to keep in memory with their attention caches: more answers to the same question
        often come shortly after the first.
    """

    def __init__(
        self,
        lower: PrefixedLower,
        *,
        model: str,
        dtype: torch.dtype,
        cache: StateCache | None,
        recent: int = 4,
    ) -> None:
        self.lower, self.cache = lower, cache
        self._model, self._dtype, self._recent_size = model, dtype, recent
        self._recent: OrderedDict[tuple[int, ...], tuple[Tensor, Any]] = OrderedDict()

    def rows(self, prompts: Sequence[PromptRow]) -> list[Row]:
        """Rows in the order of ``prompts``; equal prompts are computed once."""
        states: dict[tuple[int, ...], Tensor] = {}
        missing: dict[tuple[int, ...], list[PromptRow]] = {}
        for prompt in dict.fromkeys(prompts):
            found = self._cached(prompt)
            if found is None:
                missing.setdefault(self._shared(prompt), []).append(prompt)
            else:
                states[prompt.ids] = found
        for prefix, group in missing.items():
            states.update(self._compute(prefix, group))
        return [Row(prompt.ids, states[prompt.ids]) for prompt in prompts]

    def forget(self) -> None:
        """Drop the prefixes kept in memory."""
        self._recent.clear()

    def _shared(self, prompt: PromptRow) -> tuple[int, ...]:
        return prompt.ids[: prompt.shared] if self.lower.shares else ()

    def _compute(self, prefix: tuple[int, ...], group: Sequence[PromptRow]) -> dict[tuple[int, ...], Tensor]:
        if not prefix:
            whole = self.lower.plain([prompt.ids for prompt in group])
            for prompt, state in zip(group, whole, strict=True):
                self._store(prompt.ids, state)
            return {prompt.ids: state for prompt, state in zip(group, whole, strict=True)}
        head, attention = self._run_prefix(prefix)
        self._store(prefix, head)
        ends = self.lower.suffixes([prompt.ids[len(prefix) :] for prompt in group], len(prefix), attention)
        for prompt, end in zip(group, ends, strict=True):
            self._store(prompt.ids, end)
        return {prompt.ids: torch.cat([head, end]) for prompt, end in zip(group, ends, strict=True)}

    def _run_prefix(self, ids: tuple[int, ...]) -> tuple[Tensor, Any]:
        if ids not in self._recent:
            self._recent[ids] = self.lower.prefix(ids)
            while len(self._recent) > self._recent_size:
                self._recent.popitem(last=False)
        self._recent.move_to_end(ids)
        return self._recent[ids]

    def _cached(self, prompt: PromptRow) -> Tensor | None:
        end = self._load(prompt.ids)
        prefix = self._shared(prompt)
        if end is None or not prefix:
            return end
        head = self._load(prefix)
        return None if head is None else torch.cat([head, end])

    def _load(self, ids: tuple[int, ...]) -> Tensor | None:
        if self.cache is None:
            return None
        found = self.cache.get(state_key(self._key, self.lower.split.at, ids), self._dtype)
        return None if found is None else found.to(self.lower.device)

    def _store(self, ids: tuple[int, ...], states: Tensor) -> None:
        if self.cache is not None:
            self.cache.put(state_key(self._key, self.lower.split.at, ids), states)

    @property
    def _key(self) -> str:
        # Whether a row is kept whole or after its prefix depends on sharing, so it must enter the key.
        return f"{self._model}|{self._dtype}|{self.lower.shares}"
