"""The lower half of the model: the states of prompts at the first steered block, computed once and kept.

Below that block nothing depends on the peer or the memory. So the states of a (question, answer) are the
same for every peer, attack ratio and epoch, and the instruction and the question run once for all answers.
Above it every token was shifted by the peer's own δ, and nothing can be shared.
"""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from sigma_mem.center.batches import by_length, pad_ids
from sigma_mem.center.prompt import PromptRow
from sigma_mem.center.split import Split, close
from sigma_mem.center.state_cache import StateCache, state_key

Ids = tuple[int, ...]

# Prefixes kept in memory with their attention caches: more answers to a question often come soon after.
_RECENT = 4


@dataclass(frozen=True, slots=True)
class PromptStates:
    """One prompt: its token ids and the (T, d) input of the first upper block.

    ``states`` is None if the model cannot be split: then the whole model runs every time.
    """

    ids: Ids
    states: Tensor | None

    def __len__(self) -> int:
        return len(self.ids)


class LowerHalf:
    """States of prompts: from the disk cache if they are known, else by the lower blocks, sharing prefixes.

    Parameters
    ----------
    model
        Names the weights in the cache.
    opening
        Ids that begin every prompt; their states are made once and for all.
    max_tokens
        Size of a padded batch. 0 runs every prompt by itself: its states then do not depend, not even in the
        last bits, on the other prompts of a batch, so that a cache holds the same whichever run filled it.

    Attributes
    ----------
    shares : bool
        Whether running a prefix first gave the states of the whole prompt, to rounding, on a probe made at
        construction. If False, every prompt runs from its first token.
    """

    def __init__(
        self,
        split: Split,
        device: torch.device,
        *,
        model: str = "",
        opening: Sequence[int] = (),
        max_tokens: int = 0,
        cache: StateCache | None = None,
    ) -> None:
        self.split, self.device, self.cache, self._max_tokens = split, device, cache, max_tokens
        self._recent: OrderedDict[Ids, tuple[Tensor, Any]] = OrderedDict()
        self._opening: tuple[Ids, Tensor, Any] = ((), torch.empty(0), None)
        self.shares = split.works and self._a_prefix_changes_nothing()
        if self.shares and opening:
            self._opening = (tuple(opening), *self.prefix(opening))
        self._dtype = next(split.decoder.blocks[0].parameters()).dtype
        # Whether a prompt is kept whole or after its prefix depends on sharing, so it must enter the key.
        self._key = f"{model}|{self._dtype}|{self.shares}"

    def rows(self, prompts: Sequence[PromptRow]) -> list[PromptStates]:
        """States in the order of ``prompts``; equal prompts are computed once."""
        states: dict[Ids, Tensor] = {}
        missing: dict[Ids, list[Ids]] = {}
        for prompt in dict.fromkeys(prompts):
            prefix = prompt.ids[: prompt.shared] if self.shares else ()
            found = self._cached(prompt.ids, prefix)
            if found is None:
                missing.setdefault(prefix, []).append(prompt.ids)
            else:
                states[prompt.ids] = found
        for prefix, group in missing.items():
            states.update(self._computed(prefix, group))
        return [PromptStates(prompt.ids, states[prompt.ids]) for prompt in prompts]

    def forget(self) -> None:
        """Drop the prefixes kept in memory."""
        self._recent.clear()

    def states(self, rows: Sequence[Sequence[int]], start: int = 0, attention: Any = None) -> list[Tensor]:
        """States (len, d) of each row's tokens, which follow a common prefix of ``start`` tokens."""
        states: dict[int, Tensor] = {}
        for batch in by_length([len(row) for row in rows], self._max_tokens, slack=0.5):
            part = [rows[i] for i in batch]
            found, _ = self._continued(part, start, attention) if start else self._run(part, use_cache=False)
            states.update(zip(batch, found, strict=True))
        return [states[i] for i in range(len(rows))]

    def prefix(self, ids: Sequence[int]) -> tuple[Tensor, Any]:
        """(S,) ids common to several prompts → their (S, d) states and the attention cache to go on from."""
        opening, states, attention = self._opening
        n = len(opening)
        if 0 < n < len(ids) and tuple(ids[:n]) == opening:
            (rest,), attention = self._continued([ids[n:]], n, attention)
            return torch.cat([states, rest]), attention
        (states,), attention = self._run([ids], use_cache=True)
        return states, attention

    def _computed(self, prefix: Ids, group: Sequence[Ids]) -> dict[Ids, Tensor]:
        head: list[Tensor] = []
        attention = None
        if prefix:
            if prefix not in self._recent:
                self._recent[prefix] = self.prefix(prefix)
                if len(self._recent) > _RECENT:
                    self._recent.popitem(last=False)
            self._recent.move_to_end(prefix)
            states, attention = self._recent[prefix]
            self._store(prefix, states)
            head = [states]
        ends = self.states([ids[len(prefix) :] for ids in group], len(prefix), attention)
        for ids, end in zip(group, ends, strict=True):
            self._store(ids, end)
        return {ids: torch.cat([*head, end]) for ids, end in zip(group, ends, strict=True)}

    def _cached(self, ids: Ids, prefix: Ids) -> Tensor | None:
        end = self._load(ids)
        if end is None or not prefix:
            return end
        head = self._load(prefix)
        return None if head is None else torch.cat([head, end])

    def _load(self, ids: Ids) -> Tensor | None:
        if self.cache is None:
            return None
        found = self.cache.get(state_key(self._key, self.split.at, ids), self._dtype)
        return None if found is None else found.to(self.device)

    def _store(self, ids: Ids, states: Tensor) -> None:
        if self.cache is not None:
            self.cache.put(state_key(self._key, self.split.at, ids), states)

    @torch.no_grad()
    def _run(self, rows: Sequence[Sequence[int]], **options: Any) -> tuple[list[Tensor], Any]:
        hidden, attention = self.split.lower_with_cache(pad_ids(rows, self.device), **options)
        return [state[: len(row)] for state, row in zip(hidden, rows, strict=True)], attention

    def _continued(
        self, rows: Sequence[Sequence[int]], start: int, attention: Any
    ) -> tuple[list[Tensor], Any]:
        attention = copy.deepcopy(attention)  # a run appends to its cache
        if len(rows) > 1:
            # reorder_cache copies a row on every family; batch_repeat_interleave fails on hybrid ones.
            attention.reorder_cache(torch.zeros(len(rows), dtype=torch.long, device=self.device))
        # Positions are given: hybrid caches may not know how many tokens they have seen.
        at = torch.arange(start, start + max(map(len, rows)), device=self.device).expand(len(rows), -1)
        return self._run(rows, use_cache=True, past_key_values=attention, position_ids=at)

    def _a_prefix_changes_nothing(self) -> bool:
        vocab = self.split.vocab
        row = [(7919 * i + 5) % vocab for i in range(29)]
        other = [(104729 * i + 11) % vocab for i in range(7)]
        try:
            (whole,) = self.states([row])
            (beside_whole,) = self.states([row[:20] + other])
            first, attention = self.prefix(row[:11])
            second, attention = self._continued([row[11:20]], 11, attention)
            third, beside = self._continued([row[20:], other], 20, attention)[0]
        # Remote code may fail in any of these ways: no sharing for it.
        except (RuntimeError, TypeError, ValueError, AttributeError, IndexError, KeyError):
            return False
        got, want = torch.cat([first, *second, third, beside]), torch.cat([whole, beside_whole[20:]])
        return close(got, want)
