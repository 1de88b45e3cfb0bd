"""Hugging Face models on this machine as peers, run by transformers."""

import threading
from collections.abc import Sequence
from functools import cache
from typing import Any

from sigma_lab.collect.peers import PeerSettings
from sigma_lab.collect.requests import Body, Reply
from sigma_lab.collect.task_prompts import clean_text
from sigma_mem.extras import require


class HuggingFaceModel:
    """Answers with a causal language model; ``smollm2`` is what ``sigma-mem center pull`` fetches."""

    def __init__(self, peer: PeerSettings) -> None:
        for package in ("torch", "transformers"):
            require(package, extra="center", purpose=f"peer {peer.name!r} ({peer.spec})")
        self._model, self._tokenizer, self._lock = _loaded(peer.target, peer.dtype, peer.device)
        self._name = peer.target
        limit = getattr(self._model.config, "max_position_embeddings", None)
        self._longest = min(limit if isinstance(limit, int) else peer.context, peer.context)

    def ask(self, requests: Sequence[Body]) -> list[Reply]:
        """Write or choose the answers of one batch; a prompt that leaves no room is a failure."""
        chosen = "choices" in requests[0]  # a batch holds one kind
        texts = [chat_text(self._tokenizer, request["messages"]) for request in requests]
        prompts = [self._encode(f"{text}Answer:" if chosen else text) for text in texts]
        room = [
            max(len(self._encode(f" {text}")) for _, text in r["choices"]) if chosen else r["max_tokens"]
            for r in requests
        ]
        fits = [i for i, prompt in enumerate(prompts) if len(prompt) + room[i] <= self._longest]
        replies = {
            i: Reply(
                error=f"the prompt has {len(prompts[i])} tokens, which with {room[i]} for the answer "
                f"exceed {self._longest}"
            )
            for i in range(len(requests))
            if i not in fits
        }
        with self._lock:
            if chosen:
                replies |= {i: self._choose(prompts[i], requests[i]["choices"]) for i in fits}
            elif fits:
                written = self._write([prompts[i] for i in fits], requests[fits[0]])
                replies |= dict(zip(fits, written, strict=True))
        return [replies[i] for i in range(len(requests))]

    def close(self) -> None:
        """Nothing to end: a batch runs to its end."""

    def _write(self, prompts: Sequence[list[int]], how: Body) -> list[Reply]:
        """Generate, the prompts padded on the left to the longest; greedy at temperature 0."""
        import torch

        width = max(map(len, prompts))
        rows = [[0] * (width - len(prompt)) + prompt for prompt in prompts]
        seen = [[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts]
        sampling: dict[str, Any] = {"do_sample": how["temperature"] > 0}
        if sampling["do_sample"]:
            sampling |= {"temperature": how["temperature"], "top_p": how["top_p"], "top_k": 0}
            torch.manual_seed(how["seed"])
        if how["stop"]:
            sampling |= {"stop_strings": list(how["stop"]), "tokenizer": self._tokenizer}
        ends = self._ends()
        device = self._model.device
        found = self._model.generate(
            torch.tensor(rows, device=device),
            attention_mask=torch.tensor(seen, device=device),
            max_new_tokens=how["max_tokens"],
            pad_token_id=min(ends, default=0),
            **sampling,
        )
        return [
            self._reply(len(prompt), row[width:].tolist(), ends, how)
            for prompt, row in zip(prompts, found, strict=True)
        ]

    def _reply(self, tokens_in: int, row: list[int], ends: set[int], how: Body) -> Reply:
        """The text of one row, up to its end or a stop string, and why it ends there."""
        length = next((i for i, token in enumerate(row) if token in ends), len(row))
        text = self._tokenizer.decode(row[:length], skip_special_tokens=True)
        stops = [text.index(stop) for stop in how["stop"] if stop in text]
        text = clean_text((text[: min(stops)] if stops else text).strip())
        ended = bool(stops) or length < len(row)
        about: dict[str, Any] = {"model": self._name, "finish": "stop" if ended else "length"}
        about |= {"tokens_in": tokens_in, "tokens_out": min(length + 1, len(row))}
        return Reply(text=text, **about) if text else Reply(error="an empty answer", **about)

    def _choose(self, prompt: list[int], choices: Sequence[Sequence[str]]) -> Reply:
        """The option whose text has the highest mean log-likelihood per token, after "Answer: "."""
        import torch

        means = []
        for _, text in choices:
            end = self._encode(f" {text}")
            with torch.inference_mode():
                logits = self._model(torch.tensor([prompt + end], device=self._model.device)).logits[0]
            each = torch.log_softmax(logits[len(prompt) - 1 : -1].float(), -1)
            means.append(float(each[torch.arange(len(end)), end].mean()))
        about: dict[str, Any] = {"model": self._name, "finish": "choice", "tokens_out": 0}
        label = choices[means.index(max(means))][0]
        return Reply(text=f"Answer: {label}", tokens_in=len(prompt), **about)

    def _encode(self, text: str) -> list[int]:
        found: list[int] = self._tokenizer.encode(text, add_special_tokens=False)
        return found

    def _ends(self) -> set[int]:
        ends = self._model.generation_config.eos_token_id
        found = {ends} if isinstance(ends, int) else set(ends or ())
        return (found | {self._tokenizer.eos_token_id}) - {None}


@cache
def _loaded(name: str, dtype: str, device: str | None) -> tuple[Any, Any, threading.Lock]:
    """Model, tokenizer and a lock: two peers with one model (zero-shot and few-shot) share them."""
    from sigma_mem.center.load import load_model

    return (*load_model(name, dtype=dtype, device=device), threading.Lock())


def chat_text(tokenizer: Any, messages: list[dict[str, str]]) -> str:
    """The messages in the model's chat format, up to where its answer begins; plain text without one.

    A template that refuses a system role, as Gemma's does, gets the system's text before the first question.
    """
    if not getattr(tokenizer, "chat_template", None):
        return "\n\n".join([*(message["content"] for message in messages), ""])
    from jinja2 import TemplateError  # transformers renders templates with it

    options = {"tokenize": False, "add_generation_prompt": True, "enable_thinking": False}
    try:
        return str(tokenizer.apply_chat_template(messages, **options))
    except TemplateError:
        if messages[0]["role"] != "system":
            raise
        first = {"role": "user", "content": f"{messages[0]['content']}\n\n{messages[1]['content']}"}
        return str(tokenizer.apply_chat_template([first, *messages[2:]], **options))
