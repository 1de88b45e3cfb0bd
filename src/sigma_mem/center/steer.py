"""Shift the residual stream at the input of some decoder blocks, row by row, while a ``with`` lasts.

The paper adds δ_p to X^(ℓ), the *input* of block ℓ, for ℓ from ⌊L/2⌋ to L−1 (eq:sigma_residual_shift). A
forward pre-hook does just that; a hook on outputs would be off by one block.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from torch import Tensor, nn

from sigma_mem.errors import InputError


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
