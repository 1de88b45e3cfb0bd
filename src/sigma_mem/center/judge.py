"""Read a verdict from the center's last hidden state: U = log P(Yes) − log P(No)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from sigma_mem.center.errors import ModelShapeError
from sigma_mem.center.prompt import PromptWriter

# Matched forms: a form of Yes counts only where the same form of No is one token too, for an unmatched
# union would lean to one side (SmolLM2 writes NO in one token and YES in two).
PAIRS = (("Yes", "No"), (" Yes", " No"), ("yes", "no"), (" yes", " no"), ("YES", "NO"), (" YES", " NO"))


def yes_no_tokens(writer: PromptWriter) -> tuple[list[int], list[int]]:
    """Ids of the matched one-token forms of Yes and No as they would follow the prompt."""
    tail = writer.encode(writer.tail)
    yes: list[int] = []
    no: list[int] = []
    for pair in PAIRS:
        ids = [writer.encode(writer.tail + form) for form in pair]
        if all(len(row) == len(tail) + 1 and row[:-1] == tail for row in ids):
            (*_, y), (*_, n) = ids
            if y not in (*yes, n) and writer.tokenizer.unk_token_id not in (y, n):
                yes.append(y)
                no.append(n)
    if not yes:
        raise ModelShapeError(
            f"{type(writer.tokenizer).__name__} has no pair of one-token forms among "
            f"{', '.join(f'{y!r}/{n!r}' for y, n in PAIRS)}; choose a center whose tokenizer has Yes "
            "and No as tokens"
        )
    return yes, no


def text_config(model: nn.Module) -> Any:
    """The configuration of the language model, also inside a multimodal one; None where there is none."""
    config: Any = getattr(model, "config", None)
    return config.get_text_config() if hasattr(config, "get_text_config") else config


@dataclass(frozen=True, slots=True)
class Verdict:
    """The rows of the unembedding that a verdict needs.

    U is a plain difference of logits, because the partition function cancels (eq:sigma_peer_utility).
    """

    unembed: nn.Module
    yes: tuple[int, ...]
    no: tuple[int, ...]
    softcap: float | None
    scale: float

    @classmethod
    def of(cls, model: nn.Module, writer: PromptWriter) -> Verdict:
        """Take Yes and No from the tokenizer and the unembedding from the model."""
        unembed = model.get_output_embeddings() if hasattr(model, "get_output_embeddings") else None  # type: ignore[operator]
        if not isinstance(unembed, nn.Module) or not hasattr(unembed, "weight"):
            raise ModelShapeError(
                f"{type(model).__name__} has no unembedding; expected a causal language model"
            )
        yes, no = yes_no_tokens(writer)
        config = text_config(model)
        scale = (getattr(config, "logit_scale", None) or 1.0) / (
            getattr(config, "logits_scaling", None) or 1.0
        )
        return cls(unembed, tuple(yes), tuple(no), getattr(config, "final_logit_softcapping", None), scale)

    def utility(self, last: Tensor) -> Tensor:
        """(n, d) states of the last token → (n,) U, differentiable."""
        logits = self._logits(last, [*self.yes, *self.no])
        yes, no = logits[:, : len(self.yes)], logits[:, len(self.yes) :]
        return yes.logsumexp(-1) - no.logsumexp(-1)  # eq:sigma_peer_utility

    def yes_no_mass(self, last: Tensor) -> Tensor:
        """(n,) probability that the next token is any of the Yes and No forms."""
        return self.from_logits(self._logits(last))[1]

    def from_logits(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """(n, vocabulary) logits of the model's own forward → (n,) U and (n,) yes+no mass."""
        yes, no, either = (logits[:, ids].logsumexp(-1) for ids in (self.yes, self.no, self.yes + self.no))
        return yes - no, (either - logits.logsumexp(-1)).exp()

    def _logits(self, last: Tensor, rows: list[int] | None = None) -> Tensor:
        weight: Any = self.unembed.weight
        bias: Any = getattr(self.unembed, "bias", None)
        if rows is not None:
            index = torch.tensor(rows, device=weight.device)
            weight, bias = weight[index], None if bias is None else bias[index]
        logits = nn.functional.linear(last.to(weight.device), weight, bias).float() * self.scale
        return logits if self.softcap is None else self.softcap * torch.tanh(logits / self.softcap)
