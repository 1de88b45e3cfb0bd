"""Run the lower and the upper half of a decoder separately, without rewriting its forward.

Steering leaves the blocks below ⌊L/2⌋ untouched, so their output for (question, answer) is the same
for every peer, memory, counterfactual ratio and epoch: it is computed once. Each half is a shallow copy
of the decoder that shares every weight and has its own list of blocks: the other half's blocks are
replaced by modules that hand their input on, so everything that a forward derives from its input
(positions, masks, rotary tables, layer types by index) is made by the model's own code.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from sigma_mem.center.blocks import Decoder
from sigma_mem.center.packing import KeepKeys, Keys, KeysKept, LastQueries, Segments, positions, spans
from sigma_mem.center.steer import per_token, steered

__all__ = ["Split", "close"]


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


class Split:
    """The two halves of a decoder around block ``at``.

    Not safe for several threads at once: the halves keep the states of the call under way.

    Attributes
    ----------
    works : bool
        Whether the halves, run one after the other, gave what the whole forward gives, value and gradient, on
        a probe made at construction. If False (or ``at`` is 0), run the whole model instead.
    packs : bool
        Whether prompts may share one row in the upper half: `packed` gave the last tokens of the whole
        forward, value and gradient.
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
        self.works = self.at > 0 and (not probe or self._halves_give_the_whole())
        self.packs = self.works and probe and self._rows_may_be_packed()

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

    def packed(
        self,
        states: Sequence[Tensor],
        delta: Tensor | None = None,
        *,
        last: int | None = None,
        last_only: bool = False,
    ) -> Tensor:
        """Run the upper half on prompts that share one row; the last block for their last tokens only.

        Parameters
        ----------
        states : sequence of (T, d)
            Input of block ``at`` for every prompt.
        delta : (n, d)
            One shift per prompt, added up to block ``last``, to all or the last of its tokens.

        Returns
        -------
        (n, d)
            Final states of the last tokens, after the last norm.
        """
        blocks, lengths, row = self.decoder.blocks, [len(state) for state in states], torch.cat(list(states))
        tokens = None if delta is None else per_token(delta, lengths, last_only=last_only)
        self._source.given = row[None]
        try:
            with steered(blocks, tokens, first=self.at, last=last), Segments(lengths):
                self._body(**self._in_row(row[None], positions(lengths)))
            caught, keys = self._keeper.caught, self._keeper.keys
            if caught is None or keys is None:
                raise RuntimeError("the last block did not ask for scaled_dot_product_attention")
            ends = torch.tensor([end - 1 for _, end in spans(lengths)], device=caught.device)
            self._over.given = caught[:, ends]
            at = torch.tensor([[n - 1 for n in lengths]])
            shifts = None if delta is None else delta[None]
            with steered(blocks, shifts, first=self.at, last=last), LastQueries(lengths, keys):
                return _last_hidden(self._top(**self._in_row(self._over.given, at)))[0]
        finally:
            self._source.given = self._over.given = self._keeper.caught = self._keeper.keys = None

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

    def _halves_give_the_whole(self) -> bool:
        """Compare both ways on rows of probe tokens, steered, with the gradient that reaches the shift."""
        ids = self._probe_ids(26).reshape(2, 13)

        def run(forward: Callable[[], Tensor], delta: Tensor) -> Tensor:
            with steered(self.decoder.blocks, delta, first=self.at):
                return forward()

        return self._same(
            2,
            lambda delta: run(lambda: self.whole(ids), delta),
            lambda delta: run(lambda: self.upper(self.lower(ids).detach()), delta),
        )

    def _rows_may_be_packed(self) -> bool:
        """Compare the last tokens of prompts in one row with each prompt alone, in value and gradient."""
        if hasattr(self.decoder.blocks[-1], "_hf_hook"):
            return False  # accelerate brings the weights of this block and must see it end
        ids = self._probe_ids(26)[None]
        parts = [ids[:, start:end] for start, end in spans((13, 5, 8))]

        def alone(i: int, delta: Tensor) -> Tensor:
            with steered(self.decoder.blocks, delta[i : i + 1], first=self.at):
                return self.whole(parts[i])[:, -1]

        return self._same(
            3,
            lambda delta: torch.cat([alone(i, delta) for i in range(3)]),
            lambda delta: self.packed([self.lower(part).detach()[0] for part in parts], delta),
        )

    def _probe_ids(self, n: int) -> Tensor:
        return (torch.arange(n, device=self._embedding.device) * 7919 + 5) % self.vocab

    def _same(self, n: int, *ways: Callable[[Tensor], Tensor]) -> bool:
        """Whether two ways from n shifts to final states agree to rounding, in value and in gradient."""
        device = next(self.decoder.blocks[self.at].parameters()).device
        delta = torch.linspace(-0.01, 0.01, n * self.width, device=device).reshape(n, -1).requires_grad_(True)
        try:
            with torch.enable_grad():
                want, got = (way(delta) for way in ways)
                # Not the square: the last norm fixes it, and its gradient would be all rounding.
                along = torch.linspace(-1.0, 1.0, self.width, device=want.device)
                grads = [torch.autograd.grad((f.float() @ along).sum(), delta)[0] for f in (want, got)]
        # Remote code may fail in any of these ways when its blocks are replaced: no split for it.
        except (RuntimeError, TypeError, ValueError, AttributeError, IndexError, KeyError):
            return False
        return close(got, want) and close(grads[1], grads[0], want.dtype)


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
