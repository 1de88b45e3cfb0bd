"""Run the lower and the upper half of a decoder separately, without rewriting its forward.

Steering leaves the blocks below ⌊L/2⌋ untouched, so their output for (question, answer) is the same
for every peer, memory, counterfactual ratio and epoch: it is computed once. Each half is a shallow copy
of the decoder that shares every weight and has its own list of blocks: the other half's blocks are
replaced by modules that hand their input on, so everything that a forward derives from its input
(positions, masks, rotary tables, layer types by index) is made by the model's own code.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from sigma_mem.center.blocks import Decoder
from sigma_mem.center.segments import KeepKeys, Keys, KeysKept, LastQueries, Segments, positions, spans
from sigma_mem.center.steer import per_token, steered

__all__ = ["Ends", "Split", "close"]


class _Stand(nn.Module):
    """Takes the place of a block: hands its input on, and answers for the block's attributes."""

    def __init__(self, block: nn.Module) -> None:
        super().__init__()
        # In a tuple, or the block would become a submodule and be moved and counted twice.
        self._stood_for = (block,)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self.__dict__["_stood_for"][0], name)

    def forward(self, hidden_states: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return hidden_states


class _Tap(_Stand):
    """Keeps the hidden states that reached it: the input of the first upper block."""

    caught: Tensor | None = None

    def forward(self, hidden_states: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        self.caught = hidden_states
        return hidden_states


class _Source(_Stand):
    """Gives out hidden states handed to it, whatever the forward made of them before the first block."""

    given: Tensor | None = None

    def forward(self, hidden_states: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return hidden_states if self.given is None else self.given


class _Keeper(_Tap):
    """Runs its block only until the keys and values are known, and keeps them beside the block's input."""

    keys: Keys | None = None

    def forward(self, hidden_states: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        self.caught = hidden_states
        with KeepKeys([hidden_states.shape[1]]) as keep:
            try:
                self._stood_for[0](hidden_states, *args, **kwargs)
            except KeysKept:
                self.keys = keep.kept
        return hidden_states


@dataclass(frozen=True, slots=True)
class Ends:
    """What the last block needs to finish the last token of every prompt in a row."""

    hidden: Tensor
    keys: Keys
    lengths: tuple[int, ...]


class Split:
    """The two halves of a decoder around block ``at``.

    Not safe for several threads at once: the halves keep the states of the call under way.

    Attributes
    ----------
    exact : bool
        Whether the halves, run one after the other, gave the whole forward bit for bit, value and gradient,
        on a probe made at construction. Where False (or ``at`` is 0), run the whole model instead.
    packs : bool
        Whether prompts may share one row in the upper half: ``body`` and ``top`` gave the last tokens of the
        whole forward, to rounding, value and gradient.
    """

    def __init__(self, decoder: Decoder, at: int | None = None, *, probe: bool = True) -> None:
        self.decoder = decoder
        self.at = decoder.middle if at is None else at
        blocks = decoder.blocks
        self._tap, self._source = _Tap(blocks[self.at]), _Source(blocks[max(self.at - 1, 0)])
        low, high = blocks[: self.at], blocks[self.at :]
        self._lower = _copy_with(decoder, [*low, self._tap, *map(_Stand, high[1:])])
        self._upper = _copy_with(decoder, [*map(_Stand, low[:-1]), self._source, *high])
        self._keeper = _Keeper(blocks[-1])
        self._over = _Source(blocks[max(len(blocks) - 2, 0)])
        self._body = _copy_with(decoder, [*map(_Stand, low[:-1]), self._source, *high[:-1], self._keeper])
        self._top = _copy_with(decoder, [*map(_Stand, blocks[:-2]), self._over, blocks[-1]])
        self.exact = self.at > 0 and (not probe or self._halves_are_exact())
        self.packs = self.exact and probe and self._rows_may_be_packed()

    @property
    def vocab(self) -> int:
        """Number of token embeddings."""
        return int(self._embedding.shape[0])

    @property
    def width(self) -> int:
        """d, the size of a hidden state."""
        return int(self._embedding.shape[1])

    @property
    def _embedding(self) -> Tensor:
        weight: Tensor = self.decoder.stack.get_input_embeddings().weight  # type: ignore[operator]
        return weight

    def lower(self, ids: Tensor, **kwargs: Any) -> Tensor:
        """(n, T) token ids → (n, T, d) input of block ``at``; extra keywords go to the decoder."""
        hidden, _ = self.lower_with_cache(ids, use_cache=False, **kwargs)
        return hidden

    def lower_with_cache(self, ids: Tensor, **kwargs: Any) -> tuple[Tensor, Any]:
        """As ``lower``, with the attention cache of the lower blocks beside it."""
        try:
            output = self._lower(input_ids=ids, **kwargs)
            caught = self._tap.caught
            if caught is None:
                raise RuntimeError("the decoder did not run its blocks in order")
            return caught, getattr(output, "past_key_values", None)
        finally:
            self._tap.caught = None

    def upper(self, hidden: Tensor) -> Tensor:
        """(n, T, d) input of block ``at`` → (n, T, d) final states, after the last norm."""
        self._source.given = hidden
        try:
            return _last_hidden(self._upper(inputs_embeds=hidden, use_cache=False))
        finally:
            self._source.given = None

    def body(self, hidden: Tensor, lengths: Sequence[int]) -> Ends:
        """(1, tokens, d) input of block ``at`` for prompts in one row, up to the keys of the last block."""
        self._source.given = hidden
        try:
            with Segments(lengths):
                self._body(**self._in_row(hidden, positions(lengths)))
            caught, keys = self._keeper.caught, self._keeper.keys
            if caught is None or keys is None:
                raise RuntimeError("the last block did not ask for scaled_dot_product_attention")
            last = torch.tensor([end - 1 for _, end in spans(lengths)], device=caught.device)
            return Ends(caught[:, last], keys, tuple(lengths))
        finally:
            self._source.given = self._keeper.caught = self._keeper.keys = None

    def top(self, ends: Ends) -> Tensor:
        """The last block on every prompt's last token → (prompts, d) final states, after the last norm."""
        self._over.given = ends.hidden
        at = torch.tensor([[n - 1 for n in ends.lengths]])
        try:
            with LastQueries(ends.lengths, ends.keys):
                return _last_hidden(self._top(**self._in_row(ends.hidden, at)))[0]
        finally:
            self._over.given = None

    def _in_row(self, hidden: Tensor, at: Tensor) -> dict[str, Any]:
        # A mask that hides nothing: without one, models guess from the positions that prompts share the row.
        seen = torch.ones(1, hidden.shape[1], dtype=torch.long, device=hidden.device)
        return {
            "inputs_embeds": hidden,
            "position_ids": at.to(hidden.device),
            "attention_mask": seen,
            "use_cache": False,
        }

    def whole(self, ids: Tensor) -> Tensor:
        """(n, T) token ids → (n, T, d) final states, by the model's own forward."""
        return _last_hidden(self.decoder.stack(input_ids=ids, use_cache=False))

    def _halves_are_exact(self) -> bool:
        """Compare both ways on rows of probe tokens, steered, with the gradient that reaches the shift."""
        ids = (torch.arange(2 * 13, device=self._embedding.device).reshape(2, 13) * 7919 + 5) % self.vocab
        try:
            whole, whole_grad = self._probe(lambda: self.whole(ids))
            halves, halves_grad = self._probe(lambda: self.upper(self.lower(ids).detach()))
        # Remote code may fail in any of these ways when its blocks are replaced: no split for it.
        except (RuntimeError, TypeError, ValueError, AttributeError, IndexError, KeyError):
            return False
        return torch.equal(whole, halves) and torch.equal(whole_grad, halves_grad)

    def _rows_may_be_packed(self) -> bool:
        """Compare the last tokens of prompts in one row with each prompt alone, in value and gradient."""
        if hasattr(self.decoder.blocks[-1], "_hf_hook"):
            return False  # accelerate brings the weights of this block and must see it end
        lengths, weight = (13, 5, 8), next(self.decoder.blocks[self.at].parameters())
        ids = (torch.arange(sum(lengths), device=self._embedding.device)[None] * 7919 + 5) % self.vocab
        delta = self._shifts(len(lengths), weight)
        parts = [ids[:, start:end] for start, end in spans(lengths)]
        try:
            with torch.enable_grad():
                alone = torch.cat(
                    [self._steered_last(part, delta[i : i + 1]) for i, part in enumerate(parts)]
                )
                states = torch.cat([self.lower(part) for part in parts], dim=1).detach()
                with steered(self.decoder.blocks, per_token(delta, lengths), first=self.at):
                    ends = self.body(states, lengths)
                with steered(self.decoder.blocks, delta[None], first=self.at):
                    packed = self.top(ends)
                # Not the square: the last norm fixes it, and its gradient would be all rounding.
                along = torch.linspace(-1.0, 1.0, self.width, device=alone.device)
                grads = [torch.autograd.grad((f.float() @ along).sum(), delta)[0] for f in (alone, packed)]
        except (RuntimeError, TypeError, ValueError, AttributeError, IndexError, KeyError):
            return False
        return close(packed, alone) and close(grads[1], grads[0], alone.dtype)

    def _steered_last(self, ids: Tensor, delta: Tensor) -> Tensor:
        with steered(self.decoder.blocks, delta, first=self.at):
            return self.whole(ids)[:, -1]

    def _probe(self, run: Any) -> tuple[Tensor, Tensor]:
        blocks = self.decoder.blocks
        delta = self._shifts(2, next(blocks[self.at].parameters()))
        with torch.enable_grad(), steered(blocks, delta, first=self.at):
            final = run()
            (grad,) = torch.autograd.grad(final.float().square().mean(), delta)
        return final.detach(), grad

    def _shifts(self, n: int, like: Tensor) -> Tensor:
        delta = torch.linspace(-0.01, 0.01, n * self.width, device=like.device).reshape(n, -1)
        return delta.requires_grad_(True)


def close(got: Tensor, want: Tensor, dtype: torch.dtype | None = None) -> bool:
    """Whether rows are equal to the rounding of ``dtype``, their own if None.

    Other kernels may have run, so the last bits may differ; wrong positions or masks are off by far more.
    """
    dtype = dtype or want.dtype
    unit = torch.finfo(dtype).eps * 2.0**11 if dtype == torch.float32 else 0.05
    error = torch.linalg.vector_norm((got - want).float(), dim=-1)
    return bool((error <= unit * torch.linalg.vector_norm(want.float(), dim=-1)).all())


def _copy_with(decoder: Decoder, blocks: list[nn.Module]) -> nn.Module:
    half = copy.copy(decoder.stack)
    half.__dict__["_modules"] = dict(decoder.stack._modules)
    # accelerate binds forward to the module that it dispatched, which would run the original's blocks.
    for name in ("forward", "_old_forward", "_hf_hook"):
        half.__dict__.pop(name, None)
    half._modules[decoder.name] = nn.ModuleList(blocks)
    return half


def _last_hidden(output: Any) -> Tensor:
    hidden: Tensor = output[0] if isinstance(output, tuple) else output.last_hidden_state
    return hidden
