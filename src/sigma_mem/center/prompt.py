"""The judging prompt, a question, one peer's answer and whether it should be trusted; and the verdict.

Whatever is the same for all peers comes first (instruction, question), so that the lower half of the
model runs it once; the answer and the request for Yes or No come last.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from sigma_mem.center.errors import ModelShapeError
from sigma_mem.errors import InputError
from sigma_mem.judges.words import INSTRUCTION, PAIRS, REQUEST

_QUESTION, _ANSWER, _PEER = "\u2983question\u2984", "\u2983answer\u2984", "\u2983peer\u2984"
_VERSION = 1
_ROOMY = 64  # tokens
_NAME = 24  # tokens of a peer's name


@dataclass(frozen=True, slots=True)
class JudgePrompt:
    """What the judge is asked, and how many tokens a question and an answer may take.

    Longer texts are cut in the middle, because a question's options and an answer's conclusion stand at
    the end; the cut is shown to the model. Asked with "…, Yes or No?", SmolLM2 puts 0.5 of its next-token
    probability on Yes and No, against 0.3 for "… Reply with Yes or No."; steering moves U as far.

    With ``names_peer`` the prompt names the peer that answered. Such a judge may prefer a name, and loses
    under an attack that moves right answers to other names; one that sees question and answer only cannot.
    """

    instruction: str = INSTRUCTION
    request: str = REQUEST
    question_tokens: int = 512
    answer_tokens: int = 256
    names_peer: bool = False

    def __post_init__(self) -> None:
        for name in ("question_tokens", "answer_tokens"):
            if getattr(self, name) < 16:
                raise InputError(f"{name} is {getattr(self, name)}; expected at least 16")

    @property
    def version(self) -> str:
        """Names everything that changes a prompt's tokens; part of every cache key and checkpoint."""
        named = ("named",) if self.names_peer else ()
        said = (self.instruction, self.request, self.question_tokens, self.answer_tokens)
        return repr((_VERSION, *said, *named))


@dataclass(frozen=True, slots=True)
class PromptRow:
    """Token ids of one prompt; the first ``shared`` of them do not depend on the answer."""

    ids: tuple[int, ...]
    shared: int


class PromptWriter:
    """Write judging prompts in the chat format of one tokenizer.

    The chat template is rendered once, around two marks; a prompt is then its three pieces with question
    and answer between them, encoded as one text without added special tokens. The instruction is the system
    message if the template has one: many templates write a message of their own if none is given. The
    budgets of question and answer shrink to fit ``limit``, the longest prompt that the model reads.
    """

    def __init__(
        self, tokenizer: Any, prompt: JudgePrompt | None = None, *, limit: int | None = None
    ) -> None:
        self.tokenizer = tokenizer
        self.prompt = prompt or JudgePrompt()
        whose = f"Answer from peer {_PEER}" if self.prompt.names_peer else "Proposed answer"
        ask = f"Question:\n{_QUESTION}\n\n{whose}:\n{_ANSWER}\n\n{self.prompt.request}"
        self.opening, _, rest = self._in_chat_format(ask).partition(_QUESTION)
        self._middle, _, self.tail = rest.partition(_ANSWER)
        # A peer that writes the template's own control tokens must not end its turn and write in the judge's
        # place.
        added = getattr(tokenizer, "added_tokens_decoder", {}).values()
        control = {str(token) for token in (*tokenizer.all_special_tokens, *added)}
        self._control = sorted((token for token in control if len(token) > 2), key=len, reverse=True)
        self._question_budget, self._answer_budget = self._budgets(limit)

    def row(self, question: str, answer: str, peer: str | None = None) -> PromptRow:
        """Tokens of the prompt for one (question, answer), of a peer if the prompt names it."""
        q, a = self._fit(question, self._question_budget), self._fit(answer, self._answer_budget)
        before, named, after = (self.opening + q + self._middle).partition(_PEER)
        if named and not peer:
            raise InputError("the judging prompt names the peer; give the name of every answer's peer")
        name = self._fit(peer or "", _NAME) if named else ""
        whole = self.encode(before + name + after + a + self.tail)
        same = [alone == in_place for alone, in_place in zip(self.encode(before), whole[:-1], strict=False)]
        return PromptRow(tuple(whole), same.index(False) if False in same else len(same))

    def encode(self, text: str) -> list[int]:
        """Token ids of ``text`` as it is, without added special tokens."""
        ids = self.tokenizer.encode(text, add_special_tokens=False)
        return [int(i) for i in ids]

    def _budgets(self, limit: int | None) -> tuple[int, int]:
        question, answer = self.prompt.question_tokens, self.prompt.answer_tokens
        if limit is None:
            return question, answer
        fixed = sum(len(self.encode(text)) for text in (self.opening, self._middle, self.tail))
        fixed += _NAME if self.prompt.names_peer else 0
        room = limit - 8 - fixed  # texts may take a few tokens more in their place than alone
        if room < 32:
            raise InputError(
                f"the model reads {limit} tokens, of which the judging prompt itself leaves {room}; "
                "expected at least 32 for question and answer: shorten the instruction"
            )
        room = min(room, question + answer)
        return question * room // (question + answer), answer * room // (question + answer)

    def _in_chat_format(self, ask: str) -> str:
        instruction, template = self.prompt.instruction, getattr(self.tokenizer, "chat_template", None)
        if not template:
            bos = self.tokenizer.bos_token or ""
            return f"{bos}{instruction}\n\n{ask}\n\nVerdict:"
        apart = [{"role": "system", "content": instruction}, {"role": "user", "content": ask}]
        together = [{"role": "user", "content": f"{instruction}\n\n{ask}"}]
        for messages in (apart, together):
            text = self._rendered(messages)
            if all(part in text for part in (instruction, _QUESTION, _ANSWER, self.prompt.request)):
                return text + _opening(str(template), text)
        raise InputError(
            "the chat template dropped the message: expected a template that keeps a user's text"
        )

    def _rendered(self, messages: list[dict[str, str]]) -> str:
        """The template around these messages; empty if it refuses them, as Gemma's does a system role."""
        from jinja2 import TemplateError  # transformers renders templates with it

        try:
            # Qwen3 and SmolLM3 write an empty think block if thinking is switched off; others ignore the
            # option.
            text = self.tokenizer.apply_chat_template(
                messages, tokenize=False, add_generation_prompt=True, enable_thinking=False
            )
        except TemplateError:
            return ""
        return str(text)

    def _fit(self, text: str, budget: int) -> str:
        for token in self._control:
            text = text.replace(token, f"{token[0]} {token[1:]}")
        return cut_middle(self.tokenizer, text, budget)


def cut_middle(tokenizer: Any, text: str, budget: int) -> str:
    """``text`` if it has at most ``budget`` tokens, else its two ends with the cut named between them."""
    # No tokenizer in use spends over 32 characters a token on prose: do not encode a book to keep a page.
    roomy = 32 * budget
    left_out = max(len(text) - 2 * roomy, 0)
    if left_out:
        text = text[:roomy] + text[-roomy:]
    ids = tokenizer.encode(text, add_special_tokens=False)
    if len(ids) <= budget and not left_out:
        return text
    gone = left_out + len(text)
    reserve = len(tokenizer.encode(_cut(gone, budget), add_special_tokens=False))
    half = max((min(budget, len(ids)) - reserve) // 2, 1)
    start = str(tokenizer.decode(ids[:half], skip_special_tokens=False)).rstrip("\ufffd")
    end = str(tokenizer.decode(ids[-half:], skip_special_tokens=False)).lstrip("\ufffd")
    return start + _cut(gone - len(start) - len(end), budget) + end


def _cut(characters: int, budget: int) -> str:
    # Naming how much is gone takes a dozen tokens: too many if there are only a few.
    return f"\n[… {characters} characters left out …]\n" if budget >= _ROOMY else "\n[…]\n"


def _opening(template: str, rendered: str) -> str:
    """What must still be written so that the very next token is the verdict."""
    if "<|channel|>" in template and rendered.rstrip().endswith("<|start|>assistant"):
        return "<|channel|>final<|message|>"  # gpt-oss writes in channels
    if rendered.rstrip().endswith("<think>"):
        return "\n\n</think>\n\n"  # templates that open a thought whatever the options
    return ""


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
    """The configuration of the language model, also inside a multimodal one; None if there is none."""
    config: Any = getattr(model, "config", None)
    return config.get_text_config() if hasattr(config, "get_text_config") else config


@dataclass(frozen=True, slots=True)
class YesNoHead:
    """The rows of the unembedding that a verdict needs.

    U is a plain difference of logits, because the partition function cancels (eq:sigma_peer_utility).
    """

    unembed: nn.Module
    yes: tuple[int, ...]
    no: tuple[int, ...]
    softcap: float | None
    scale: float

    @classmethod
    def of(cls, model: nn.Module, writer: PromptWriter) -> YesNoHead:
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
        last = last.to(weight.device)
        if rows is not None:  # in float32: the noise of bfloat16 would be half of U's spread
            index = torch.tensor(rows, device=weight.device)
            last, weight, bias = (
                last.float(),
                weight[index].float(),
                None if bias is None else bias[index].float(),
            )
        logits = nn.functional.linear(last, weight, bias).float() * self.scale
        return logits if self.softcap is None else self.softcap * torch.tanh(logits / self.softcap)
