"""Find the decoder blocks of a Hugging Face causal LM."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from sigma_mem.center.errors import ModelShapeError

# Names under which a decoder keeps its blocks: nearly every family, GPT-2 and its kin, MPT and DBRX.
_LIST_NAMES = ("layers", "h", "blocks")
# Where the decoder itself may sit when the model does not say so through get_decoder().
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
