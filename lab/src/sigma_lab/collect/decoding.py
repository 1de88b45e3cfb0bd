"""Run a causal language model on many prompts at a time; what they begin with alike is read once.

Reading is most of a small model's work on a CPU, and the examples are most of a few-shot prompt.
So the longest common beginning of a batch is kept and copied to every row, for the next batch too.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import torch

_WORTH = 16  # tokens: a shorter beginning costs as much to copy as to read


@dataclass
class Rows:
    """A batch under way: what the model has read of every row, and what it makes of the last token."""

    cache: Any
    mask: torch.Tensor
    """1 for a token, 0 for padding; of every row."""
    logits: torch.Tensor
    """Of the last tokens that were fed: rows × tokens × vocabulary."""

    def take(self, rows: Sequence[int]) -> None:
        """Keep these rows, in this order; a row may be taken several times."""
        index = torch.tensor(rows, device=self.mask.device)
        self.cache.reorder_cache(index)
        self.mask, self.logits = self.mask[index], self.logits[index]


class BatchDecoder:
    """Reads prompts of different length together, and writes on."""

    def __init__(self, model: Any) -> None:
        self._model = model
        _share_heads(model)
        self._takes = set(inspect.signature(model.forward).parameters)
        self._kept: tuple[list[int], Any] | None = None
        self._shares = True  # whether beginnings can be shared; known after the first

    @torch.inference_mode()
    def read(self, prompts: Sequence[list[int]]) -> Rows:
        """Read the prompts, each of at least one token, up to the logits of their last tokens."""
        begin, cache = self._beginning(prompts)
        ends = [prompt[len(begin) :] for prompt in prompts]
        rows = Rows(None, self._ids([[1] * len(begin)] * len(prompts)), torch.empty(0))
        if cache is not None:
            rows.cache = copy.deepcopy(cache)
            rows.cache.reorder_cache(torch.zeros(len(prompts), dtype=torch.long, device=rows.mask.device))
        width = max(map(len, ends))
        self.feed(
            rows,
            self._ids([[0] * (width - len(end)) + end for end in ends]),
            self._ids([[0] * (width - len(end)) + [1] * len(end) for end in ends]),
        )
        return rows

    @torch.inference_mode()
    def feed(self, rows: Rows, ids: torch.Tensor, mask: torch.Tensor, last: int = 1) -> None:
        """Let every row go on with these tokens; keep the logits of the ``last`` of them."""
        rows.mask = torch.cat([rows.mask, mask], dim=1)
        options: dict[str, Any] = {"attention_mask": rows.mask}
        if "position_ids" in self._takes:
            places = (rows.mask.cumsum(-1) - 1).clamp(min=0)
            options["position_ids"] = places[:, -ids.shape[1] :]
        if "logits_to_keep" in self._takes:
            options["logits_to_keep"] = last
        out = self._model(ids, past_key_values=rows.cache, use_cache=True, **options)
        rows.cache, rows.logits = out.past_key_values, out.logits[:, -last:]

    @torch.inference_mode()
    def log_likelihoods(
        self, prompts: Sequence[list[int]], options: Sequence[Sequence[list[int]]]
    ) -> list[list[float]]:
        """The mean log-likelihood per token of every option after its prompt."""
        rows = self.read(prompts)
        rows.take([i for i, texts in enumerate(options) for _ in texts])
        ends = [end for texts in options for end in texts]
        ids = self._ids([end + [0] * (max(map(len, ends)) - len(end)) for end in ends])
        real = self._ids([[1] * len(end) + [0] * (ids.shape[1] - len(end)) for end in ends])
        logits = rows.logits
        if ids.shape[1] > 1:  # the last token is predicted, not read
            self.feed(rows, ids[:, :-1], real[:, :-1], last=ids.shape[1] - 1)
            logits = torch.cat([logits, rows.logits], dim=1)
        each = torch.log_softmax(logits.float(), -1).gather(-1, ids[..., None])[..., 0]
        means = iter(((each * real).sum(-1) / real.sum(-1).clamp(min=1)).tolist())
        return [[next(means) for _ in texts] for texts in options]

    @torch.inference_mode()
    def write(
        self,
        prompts: Sequence[list[int]],
        max_tokens: int,
        pick: Callable[[torch.Tensor], torch.Tensor],
        ended: Callable[[list[int]], bool],
    ) -> list[list[int]]:
        """Go on with every prompt until ``ended`` says so of what was written; the row is then left out."""
        rows = self.read(prompts)
        written: list[list[int]] = [[] for _ in prompts]
        open_rows = list(range(len(prompts)))
        while True:
            tokens = pick(rows.logits[:, -1].float())
            for row, token in zip(open_rows, tokens.tolist(), strict=True):
                written[row].append(token)
            going = [
                i for i, row in enumerate(open_rows)
                if len(written[row]) < max_tokens and not ended(written[row])
            ]  # fmt: skip
            if not going:
                return written
            if len(going) < len(open_rows):
                rows.take(going)
                open_rows = [open_rows[i] for i in going]
                tokens = tokens[going]
            self.feed(rows, tokens[:, None], torch.ones_like(tokens)[:, None])

    def _ids(self, rows: Sequence[Sequence[int]]) -> torch.Tensor:
        return torch.tensor(rows, dtype=torch.long, device=self._model.device)

    def _beginning(self, prompts: Sequence[list[int]]) -> tuple[list[int], Any]:
        """What all prompts begin with, and the model's state after it; nothing where it is not worth it."""
        common = _common(prompts)
        if self._kept is not None:
            begin, _ = self._kept
            longer = len(prompts) > 1 and len(common) > 2 * len(begin)
            if common[: len(begin)] == begin and not longer:
                return self._kept
        if not self._shares or len(prompts) == 1 or len(common) < _WORTH:
            return [], None
        rows = Rows(None, self._ids([[]]), torch.empty(0))
        self.feed(rows, self._ids([common]), self._ids([[1] * len(common)]))
        # Padding inside a row is exact for full attention only: a window or a recurrent state counts it.
        layers = getattr(rows.cache, "layers", [None])
        self._shares = all(type(layer).__name__ == "DynamicLayer" for layer in layers)
        if not self._shares:
            return [], None
        self._kept = (common, rows.cache)
        return self._kept


def token_picker(temperature: float, top_p: float, seed: int) -> Callable[[torch.Tensor], torch.Tensor]:
    """What picks the next token of every row: the likeliest at temperature 0, else one drawn by the seed."""
    if temperature == 0:
        return lambda logits: logits.argmax(-1)
    drawn = torch.Generator().manual_seed(seed)

    def pick(logits: torch.Tensor) -> torch.Tensor:
        shares, order = torch.softmax(logits.cpu() / temperature, -1).sort(-1, descending=True)
        shares[shares.cumsum(-1) - shares >= top_p] = 0  # the first is always kept
        return order.gather(-1, shares.multinomial(1, generator=drawn))[:, 0].to(logits.device)

    return pick


def _share_heads(model: Any) -> None:
    """Let query heads share their keys on a CPU, as the model means it.

    Where a batch is padded, transformers copies keys and values for every query head, because that is
    faster on a GPU. On a CPU the copies can cost more than all matrix products of a step. The result is
    the same.
    """
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.integrations.sdpa_attention import sdpa_attention_forward
    from transformers.masking_utils import sdpa_mask

    def attend(
        module: Any, query: Any, key: Any, value: Any, attention_mask: Any, **options: Any
    ) -> tuple[Any, None]:
        unusual = options.get("position_bias") is not None or options.get("softcap") is not None
        if attention_mask is None or unusual:
            out: tuple[Any, None] = sdpa_attention_forward(
                module, query, key, value, attention_mask, **options
            )
            return out
        shared = {"attn_mask": attention_mask, "scale": options.get("scaling"), "enable_gqa": True}
        found = torch.nn.functional.scaled_dot_product_attention(query, key, value, **shared)
        return found.transpose(1, 2).contiguous(), None

    if model.device.type == "cpu" and model.config._attn_implementation == "sdpa":
        AttentionInterface.register("sigma_mem_sdpa", attend)
        AttentionMaskInterface.register("sigma_mem_sdpa", sdpa_mask)
        model.set_attn_implementation("sigma_mem_sdpa")


def _common(prompts: Collection[list[int]]) -> list[int]:
    """The longest common beginning that leaves every prompt at least one token.

    >>> _common([[1, 2, 3], [1, 2, 4, 5]])
    [1, 2]
    >>> _common([[1, 2], [1, 2, 4]])
    [1]
    """
    first, last = min(prompts), max(prompts)
    longest = min(map(len, prompts)) - 1
    same = 0
    while same < longest and first[same] == last[same]:
        same += 1
    return first[:same]
