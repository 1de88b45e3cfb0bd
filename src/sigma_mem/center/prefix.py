"""Run what several prompts have in common once, in the lower half only.

Below the first steered block nothing depends on the peer, so the instruction and the question are the
same for all of them. Above it every token was shifted by the peer's own δ and nothing can be shared.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from sigma_mem.center.batches import by_length, by_total, pad_ids
from sigma_mem.center.segments import Segments, positions, spans
from sigma_mem.center.split import Split, close

__all__ = ["PrefixedLower"]


class PrefixedLower:
    """Lower-half states of prompts that begin alike.

    Attributes
    ----------
    shares : bool
        Whether running a prefix first gave the states of the whole prompt, to rounding, on a probe made at
        construction. Where False, every prompt runs from its first token.
    packs : bool
        Whether what follows a prefix may share one row, tested likewise; else it is padded to batches.
    """

    def __init__(
        self,
        split: Split,
        device: torch.device,
        *,
        max_tokens: int,
        slack: float = 1.0,
        opening: Sequence[int] = (),
        pack: bool = True,
    ) -> None:
        self.split, self.device, self.max_tokens, self.slack = split, device, max_tokens, slack
        self._opening: tuple[tuple[int, ...], Tensor, Any] | None = None
        self.shares = self._prefix_is_harmless(self._continue)
        self.packs = pack and split.packs and self.shares and self._prefix_is_harmless(self._continue_in_row)
        if self.shares and opening:
            # The instruction opens every prompt of every event: its states are made once and for all.
            self._opening = (tuple(opening), *self._first(tuple(opening)))

    @torch.no_grad()
    def prefix(self, ids: Sequence[int]) -> tuple[Tensor, Any]:
        """(S,) ids common to several prompts → their (S, d) states and the attention cache to go on from."""
        opening = self._opening
        if opening is not None and len(ids) > len(opening[0]) and tuple(ids[: len(opening[0])]) == opening[0]:
            rest, cache = self._continue([ids[len(opening[0]) :]], len(opening[0]), opening[2])
            return torch.cat([opening[1], rest[0]]), cache
        return self._first(ids)

    @torch.no_grad()
    def suffixes(self, rows: Sequence[Sequence[int]], start: int, cache: Any) -> list[Tensor]:
        """States of each row's tokens after a common prefix of ``start`` tokens, as (len, d)."""
        states: list[Tensor | None] = [None] * len(rows)
        lengths, go_on = [len(row) for row in rows], self._continue
        batches = by_length(lengths, self.max_tokens, self.slack)
        if self.packs:
            batches, go_on = by_total(lengths, self.max_tokens), self._continue_in_row
        for batch in batches:
            found, _ = go_on([rows[i] for i in batch], start, cache)
            for i, state in zip(batch, found, strict=True):
                states[i] = state
        return [state for state in states if state is not None]

    @torch.no_grad()
    def plain(self, rows: Sequence[Sequence[int]]) -> list[Tensor]:
        """States of whole prompts, as (len, d), sharing nothing."""
        states: list[Tensor | None] = [None] * len(rows)
        for batch in by_length([len(row) for row in rows], self.max_tokens, self.slack):
            hidden = self.split.lower(pad_ids([rows[i] for i in batch], self.device))
            for i, state in zip(batch, hidden, strict=True):
                states[i] = state[: len(rows[i])]
        return [state for state in states if state is not None]

    @torch.no_grad()
    def _first(self, ids: Sequence[int]) -> tuple[Tensor, Any]:
        hidden, cache = self.split.lower_with_cache(pad_ids([ids], self.device), use_cache=True)
        return hidden[0], cache

    def _continue(self, rows: Sequence[Sequence[int]], start: int, cache: Any) -> tuple[list[Tensor], Any]:
        cache = copy.deepcopy(cache)  # a run appends to its cache
        if len(rows) > 1:
            # reorder_cache copies a row on every family; batch_repeat_interleave fails on hybrid ones.
            cache.reorder_cache(torch.zeros(len(rows), dtype=torch.long, device=self.device))
        ids = pad_ids(rows, self.device)
        # Positions are given: hybrid caches may not know how many tokens they have seen.
        at = torch.arange(start, start + ids.shape[1], device=self.device).expand(len(rows), -1)
        hidden, cache = self.split.lower_with_cache(
            ids, use_cache=True, past_key_values=cache, position_ids=at
        )
        return [state[: len(row)] for state, row in zip(hidden, rows, strict=True)], cache

    def _continue_in_row(
        self, rows: Sequence[Sequence[int]], start: int, cache: Any
    ) -> tuple[list[Tensor], Any]:
        lengths = [len(row) for row in rows]
        ids = torch.tensor([[i for row in rows for i in row]], device=self.device)
        with Segments(lengths):
            hidden, cache = self.split.lower_with_cache(
                ids,
                use_cache=True,
                past_key_values=copy.deepcopy(cache),
                position_ids=positions(lengths, start).to(self.device),
            )
        return [hidden[0, begin:end] for begin, end in spans(lengths)], cache

    @torch.no_grad()
    def _prefix_is_harmless(self, go_on: Any) -> bool:
        if not self.split.exact:
            return False
        vocab = self.split.vocab
        row = [(7919 * i + 5) % vocab for i in range(29)]
        other = [(104729 * i + 11) % vocab for i in range(7)]
        try:
            (whole,) = self.plain([row])
            first, cache = self._first(row[:11])
            second, cache = self._continue([row[11:20]], 11, cache)
            third, beside = go_on([row[20:], other], 20, cache)[0]
            (beside_whole,) = self.plain([row[:20] + other])
        except (RuntimeError, TypeError, ValueError, AttributeError, IndexError, KeyError):
            return False
        got, want = torch.cat([first, *second, third, beside]), torch.cat([whole, beside_whole[20:]])
        return close(got, want)
