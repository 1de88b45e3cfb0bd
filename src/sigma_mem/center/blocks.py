"""The decoder blocks of a model: find them, see their inputs, and shift those while a ``with`` lasts.

The paper adds δ_p to X^(ℓ), the *input* of block ℓ, for ℓ from ⌊L/2⌋ to L−1 (eq:sigma_residual_shift). A
forward pre-hook does just that; a hook on outputs would be off by one block.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from sigma_mem.center.errors import ModelShapeError
from sigma_mem.errors import InputError

# Names under which a decoder keeps its blocks: nearly every family, GPT-2 and its kin, MPT and DBRX.
_LIST_NAMES = ("layers", "h", "blocks")
# Where the decoder itself may be if the model has no get_decoder().
_STACKS = (
    "model",
    "transformer",
    "gpt_neox",
    "model.language_model",
    "language_model.model",
    "model.decoder",
)


@dataclass(frozen=True, slots=True)
class Decoder:
    """The module that runs the blocks, and the name under which it keeps them."""

    stack: nn.Module
    name: str

    @property
    def blocks(self) -> list[nn.Module]:
        """The L decoder blocks, in order."""
        return list(getattr(self.stack, self.name))

    @property
    def middle(self) -> int:
        """⌊L/2⌋, the first block that the paper steers."""
        return len(self.blocks) // 2


def find_decoder(model: nn.Module, path: str | None = None) -> Decoder:
    """Return the decoder of ``model`` with its blocks.

    Parameters
    ----------
    path
        Dotted path of the list of blocks, such as ``"transformer.h"``, for a model that the search does
        not understand. The module before the last dot must be the one whose forward runs the blocks.

    Examples
    --------
    >>> from transformers import GPT2Config, GPT2LMHeadModel
    >>> model = GPT2LMHeadModel(GPT2Config(n_layer=4, n_embd=8, n_head=2, vocab_size=11))
    >>> decoder = find_decoder(model)
    >>> decoder.name, len(decoder.blocks), decoder.middle
    ('h', 4, 2)
    """
    if path is not None:
        return _at_path(model, path)
    stacks: list[Any] = [model.get_decoder()] if hasattr(model, "get_decoder") else []  # type: ignore[operator]
    for where in _STACKS:
        with suppress(AttributeError):
            stacks.append(model.get_submodule(where))
    for stack in stacks:
        for name in _LIST_NAMES:
            if _is_block_list(getattr(stack, name, None)):
                return Decoder(stack, name)
    top = ", ".join(name for name, _ in model.named_children()) or "none"
    raise ModelShapeError(
        f"no decoder blocks found in {type(model).__name__}: expected a causal LM whose decoder has a list "
        f"of blocks named {', '.join(_LIST_NAMES)}; name the list yourself, for example "
        f"blocks_path='transformer.h' (its top modules are: {top})"
    )


class _Reached(Exception):
    """Ends a forward whose wanted states are known."""


@torch.no_grad()
def block_input(decoder: Decoder, block: int, ids: Tensor) -> Tensor:
    """(n, T) token ids → (n, T, d) input of a block; the plain forward is ended before that block runs."""
    caught: list[Tensor] = []

    def keep(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        caught.append(args[0] if args else kwargs["hidden_states"])
        raise _Reached

    with decoder.blocks[block].register_forward_pre_hook(keep, with_kwargs=True), suppress(_Reached):
        decoder.stack(input_ids=ids, use_cache=False)
    if not caught:
        raise ModelShapeError(f"block {block} did not run; expected a decoder that runs its blocks in order")
    return caught[0]


def _is_block_list(found: object) -> bool:
    return isinstance(found, nn.ModuleList) and len(found) > 0


def _at_path(model: nn.Module, path: str) -> Decoder:
    owner, _, name = path.rpartition(".")
    try:
        stack = model.get_submodule(owner)
        blocks = stack.get_submodule(name)
    except AttributeError as error:
        raise ModelShapeError(
            f"blocks_path={path!r} is not in {type(model).__name__}: {error}; "
            "give the dotted path of its list of decoder blocks"
        ) from error
    if not _is_block_list(blocks):
        raise ModelShapeError(
            f"blocks_path={path!r} is a {type(blocks).__name__}; expected a non-empty ModuleList of "
            "decoder blocks"
        )
    return Decoder(stack, name)


def block_range(n_blocks: int, first: int | None = None, last: int | None = None) -> range:
    """Blocks ``first`` … ``last`` inclusive, by default ⌊L/2⌋ and L−1, as in the paper."""
    low = n_blocks // 2 if first is None else first
    high = n_blocks - 1 if last is None else last
    if not 0 <= low <= high < n_blocks:
        raise InputError(
            f"block range {low}…{high} does not fit a model of {n_blocks} blocks: expected "
            f"0 ≤ first ≤ last < {n_blocks}"
        )
    return range(low, high + 1)


@contextmanager
def steered(
    blocks: Sequence[nn.Module],
    delta: Tensor | None,
    *,
    first: int | None = None,
    last: int | None = None,
    lengths: Tensor | None = None,
) -> Iterator[None]:
    """Add ``delta`` to the input of some of all L blocks (`block_range`) while the ``with`` lasts.

    Parameters
    ----------
    delta
        (n, d), one shift per row of the batch that will run; None leaves the model alone. Adding zeros is
        exact: they give the unsteered result.
    lengths
        (n,) lengths of the rows. Given, only the last real token of every row is shifted; by default all are.

    Notes
    -----
    The hooks never write in place, so gradients flow to ``delta``. Run ``backward`` of a checkpointed
    model inside the ``with``: recomputation without the hooks would give wrong gradients.
    """
    chosen = block_range(len(blocks), first, last)
    if delta is not None and delta.ndim != 2:
        raise InputError(f"delta has shape {tuple(delta.shape)}; expected (rows, hidden size)")

    with ExitStack() as hooks:
        if delta is not None:
            hook = partial(_shift, delta, lengths)
            for i in chosen:
                hooks.enter_context(blocks[i].register_forward_pre_hook(hook, with_kwargs=True))
        yield


def _shift(
    delta: Tensor, lengths: Tensor | None, _: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a block with its hidden states shifted."""
    hidden: Tensor = args[0] if args else kwargs["hidden_states"]
    if hidden.shape[::2] != delta.shape:
        raise InputError(
            f"delta is {tuple(delta.shape)} but the batch is {tuple(hidden.shape)}; expected one shift per "
            "row, (rows, hidden size)"
        )
    # A model spread over several devices hands its blocks hidden states on each of them.
    shift = delta[:, None].to(device=hidden.device, dtype=hidden.dtype)
    if lengths is not None:
        at_last = hidden.new_zeros(*hidden.shape[:2], 1)
        shift = at_last.scatter_(1, (lengths.to(hidden.device) - 1)[:, None, None], 1.0) * shift
    moved = hidden + shift  # eq:sigma_residual_shift
    return ((moved, *args[1:]), kwargs) if args else (args, {**kwargs, "hidden_states": moved})
