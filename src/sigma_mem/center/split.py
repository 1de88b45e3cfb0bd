"""Run the lower and the upper half of a decoder separately, without rewriting its forward.

Steering leaves the blocks below ⌊L/2⌋ untouched, so their output for (question, answer) is the same
for every peer, memory, counterfactual ratio and epoch: it is computed once. Each half is a shallow copy
of the decoder that shares every weight and has its own list of blocks: the other half's blocks are
replaced by modules that hand their input on, so everything that a forward derives from its input
(positions, masks, rotary tables, layer types by index) is made by the model's own code.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

from sigma_mem.center.blocks import Decoder, steered


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


class Split:
    """The two halves of a decoder around block ``at``.

    Not safe for several threads at once: the halves keep the states of the call under way.

    Attributes
    ----------
    works : bool
        Whether the halves, run one after the other, gave what the whole forward gives, value and gradient, on
        a probe made at construction. If False (or ``at`` is 0), run the whole model instead.
    """

    def __init__(self, decoder: Decoder, at: int | None = None, *, probe: bool = True) -> None:
        self.decoder, blocks = decoder, decoder.blocks
        self.at = decoder.middle if at is None else at
        self._embedding: Tensor = decoder.stack.get_input_embeddings().weight  # type: ignore[operator]
        self.vocab, self.width = self._embedding.shape
        self._tap, self._source = _Tap(blocks[self.at]), _Source(blocks[max(self.at - 1, 0)])
        low, high = blocks[: self.at], blocks[self.at :]
        self._lower = _copy_with(decoder, [*low, self._tap, *map(_Stand, high[1:])])
        self._upper = _copy_with(decoder, [*map(_Stand, low[:-1]), self._source, *high])
        self.works = self.at > 0 and (not probe or self._same_as_the_whole())

    def lower(self, ids: Tensor) -> Tensor:
        """(n, T) token ids → (n, T, d) input of block ``at``."""
        return self.lower_with_cache(ids, use_cache=False)[0]

    def lower_with_cache(self, ids: Tensor, **options: Any) -> tuple[Tensor, Any]:
        """As ``lower``, with the attention cache of the lower blocks; options go to the decoder."""
        try:
            output = self._lower(input_ids=ids, **options)
            if self._tap.caught is None:
                raise RuntimeError("the decoder did not run its blocks in order")
            return self._tap.caught, getattr(output, "past_key_values", None)
        finally:
            self._tap.caught = None

    def upper(self, hidden: Tensor) -> Tensor:
        """(n, T, d) input of block ``at`` → (n, T, d) final states, after the last norm."""
        self._source.given = hidden
        try:
            return _last_hidden(self._upper(inputs_embeds=hidden, use_cache=False))
        finally:
            self._source.given = None

    def whole(self, ids: Tensor) -> Tensor:
        """(n, T) token ids → (n, T, d) final states, by the model's own forward."""
        return _last_hidden(self.decoder.stack(input_ids=ids, use_cache=False))

    def _same_as_the_whole(self) -> bool:
        """Whether halves and whole agree to rounding, in value and in gradient."""
        blocks = self.decoder.blocks
        ids = (torch.arange(26, device=self._embedding.device).reshape(2, 13) * 7919 + 5) % self.vocab
        device = next(blocks[self.at].parameters()).device
        delta = torch.linspace(-0.01, 0.01, 2 * self.width, device=device).reshape(2, -1).requires_grad_(True)
        found = []
        try:
            with torch.enable_grad(), steered(blocks, delta, first=self.at):
                for final in (self.whole(ids), self.upper(self.lower(ids).detach())):
                    # Not the square: the last norm fixes it, and its gradient would be all rounding.
                    along = torch.linspace(-1.0, 1.0, self.width, device=final.device)
                    found.append((final, torch.autograd.grad((final.float() @ along).sum(), delta)[0]))
        # Remote code may fail in any of these ways when its modules are replaced: no split for it.
        except (RuntimeError, TypeError, ValueError, AttributeError, IndexError, KeyError):
            return False
        (want, want_grad), (got, got_grad) = found
        return close(got, want) and close(got_grad, want_grad, want.dtype)


def at_ends(values: Tensor, lengths: Tensor) -> Tensor:
    """(n, T, d) → (n, d), the last token of every row."""
    return values[torch.arange(len(lengths), device=values.device), lengths.to(values.device) - 1]


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
