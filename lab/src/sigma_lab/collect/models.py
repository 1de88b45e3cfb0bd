"""Models on this machine as peers: Hugging Face models by transformers, GGUF files by llama.cpp."""

import threading
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from sigma_lab.collect.asking import Body, Reply
from sigma_lab.collect.peers import PeerSettings
from sigma_lab.collect.task_prompts import clean_text
from sigma_mem.errors import InputError
from sigma_mem.extras import require


class HuggingFaceModel:
    """Answers with a causal language model; ``smollm2`` is what ``sigma-mem center pull`` fetches."""

    def __init__(self, peer: PeerSettings) -> None:
        for package in ("torch", "transformers"):
            require(package, extra="center", purpose=f"peer {peer.name!r} ({peer.spec})")
        self._model, self._tokenizer, self._decoder, self._lock = _loaded(
            peer.target, peer.dtype, peer.device
        )
        self._name, self._batch = peer.target, peer.batch
        limit = getattr(self._model.config, "max_position_embeddings", None)
        self._longest = min(limit if isinstance(limit, int) else peer.context, peer.context)

    def ask(self, requests: Sequence[Body]) -> list[Reply]:
        """Write or choose the answers of one batch; a prompt that leaves no room is a failure."""
        written = [request for request in requests if "choices" not in request]
        chosen = [request for request in requests if "choices" in request]
        with self._lock:
            writing, choosing = iter(self._write(written)), iter(self._choose(chosen))
            return [next(choosing if "choices" in request else writing) for request in requests]

    def close(self) -> None:
        """Nothing to end: a batch runs to its end."""

    def _write(self, requests: Sequence[Body]) -> list[Reply]:
        from sigma_lab.collect.decoding import token_picker

        prompts = [self._encode(chat_text(self._tokenizer, request["messages"])) for request in requests]
        replies = [
            self._too_long(prompt, request["max_tokens"])
            for prompt, request in zip(prompts, requests, strict=True)
        ]
        fits = [i for i, failure in enumerate(replies) if failure is None]
        if fits:
            how = requests[fits[0]]
            ends, pick = self._ends(), token_picker(how["temperature"], how["top_p"], how["seed"])
            found = self._decoder.write(
                [prompts[i] for i in fits], how["max_tokens"], pick, lambda row: self._ended(row, ends, how)
            )
            for i, row in zip(fits, found, strict=True):
                text, finish = self._finished(row, ends, how)
                counted: dict[str, Any] = {"tokens_in": len(prompts[i]), "tokens_out": len(row)}
                replies[i] = _nonempty(text, model=self._name, finish=finish, **counted)
        return [reply for reply in replies if reply is not None]

    def _choose(self, requests: Sequence[Body]) -> list[Reply]:
        """The option whose text has the highest mean log-likelihood per token, after "Answer: "."""
        prompts = [
            self._encode(f"{chat_text(self._tokenizer, request['messages'])}Answer:") for request in requests
        ]
        options = [[self._encode(f" {text}") for _, text in request["choices"]] for request in requests]
        replies = [
            self._too_long(prompt, max(map(len, ends))) for prompt, ends in zip(prompts, options, strict=True)
        ]
        fits = [i for i, failure in enumerate(replies) if failure is None]
        for group in _groups(fits, [len(ends) for ends in options], self._batch):
            means = self._decoder.log_likelihoods([prompts[i] for i in group], [options[i] for i in group])
            for i, values in zip(group, means, strict=True):
                label = requests[i]["choices"][values.index(max(values))][0]
                about: dict[str, Any] = {"model": self._name, "finish": "choice", "tokens_out": 0}
                replies[i] = Reply(text=f"Answer: {label}", tokens_in=len(prompts[i]), **about)
        return [reply for reply in replies if reply is not None]

    def _encode(self, text: str) -> list[int]:
        found: list[int] = self._tokenizer.encode(text, add_special_tokens=False)
        return found

    def _too_long(self, prompt: list[int], room: int) -> Reply | None:
        if len(prompt) + room <= self._longest:
            return None
        exceeds = f"which with {room} for the answer exceed {self._longest}"
        return Reply(error=f"the prompt has {len(prompt)} tokens, {exceeds}")

    def _ended(self, row: list[int], ends: set[int], how: Body) -> bool:
        """Whether a row ends with its last token, which may complete a stop string."""
        if row[-1] in ends:
            return True
        if not how["stop"]:
            return False
        tail = self._tokenizer.decode(row[-max(map(len, how["stop"])) - 8 :], skip_special_tokens=True)
        return any(stop in tail for stop in how["stop"])

    def _finished(self, row: list[int], ends: set[int], how: Body) -> tuple[str, str]:
        """Text of one row, and why it ends there."""
        at_end = row[-1] in ends
        text = self._tokenizer.decode(row[:-1] if at_end else row, skip_special_tokens=True)
        stops = [text.index(stop) for stop in how["stop"] if stop in text]
        return text[: min(stops)] if stops else text, "stop" if stops or at_end else "length"

    def _ends(self) -> set[int]:
        ends = self._model.generation_config.eos_token_id
        found = {ends} if isinstance(ends, int) else set(ends or ())
        return (found | {self._tokenizer.eos_token_id}) - {None}


def _groups(items: Sequence[int], sizes: Sequence[int], most: int) -> list[list[int]]:
    """Items in order, in groups whose sizes add up to ``most`` or less, or of one item.

    >>> _groups([0, 1, 2, 3], [2, 2, 3, 9], 4)
    [[0, 1], [2], [3]]
    """
    groups: list[list[int]] = []
    room = 0
    for item in items:
        if not groups or sizes[item] > room:
            groups.append([])
            room = most
        groups[-1].append(item)
        room -= sizes[item]
    return groups


@cache
def _loaded(name: str, dtype: str, device: str | None) -> tuple[Any, Any, Any, threading.Lock]:
    """Model, tokenizer, decoder and a lock: two peers with one model (zero-shot and few-shot) share them."""
    from sigma_lab.collect.decoding import BatchDecoder
    from sigma_mem.center.load import load_model

    model, tokenizer = load_model(name, dtype=dtype, device=device)
    return model, tokenizer, BatchDecoder(model), threading.Lock()


class GgufFile:
    """Generates with a GGUF file through llama-cpp-python."""

    def __init__(self, peer: PeerSettings) -> None:
        if not Path(peer.target).is_file():
            raise InputError(f"peer {peer.name!r}: there is no file {peer.target}; expected a GGUF file")
        llama_cpp = require(
            "llama_cpp", extra="gguf", distribution="sigma-lab", purpose=f"peer {peer.name!r} ({peer.spec})"
        )
        try:
            self._model: Any = llama_cpp.Llama(peer.target, n_ctx=peer.context, seed=peer.seed, verbose=False)
        except (ValueError, OSError) as error:
            raise InputError(
                f"peer {peer.name!r}: cannot load {peer.target} as a GGUF file: {error}"
            ) from error
        self._name = Path(peer.target).name
        self._lock = threading.Lock()

    def ask(self, requests: Sequence[Body]) -> list[Reply]:
        """One generation after the other."""
        return [self._ask(request) for request in requests]

    def close(self) -> None:
        """Nothing to end: an answer runs to its end."""

    def _ask(self, request: Body) -> Reply:
        sampling = {
            name: request[name] for name in ("messages", "temperature", "top_p", "max_tokens", "seed", "stop")
        }
        try:
            with self._lock:
                found = self._model.create_chat_completion(**sampling)
        except (ValueError, RuntimeError) as error:  # longer than the context, or llama.cpp failed on it
            return Reply(error=f"llama.cpp: {error}")
        choice, usage = found["choices"][0], found["usage"]
        counted = {"tokens_in": usage["prompt_tokens"], "tokens_out": usage["completion_tokens"]}
        text = choice["message"]["content"] or ""
        return _nonempty(text, model=self._name, finish=choice["finish_reason"], **counted)


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


def _nonempty(text: str, **about: Any) -> Reply:
    text = clean_text(text.strip())
    return Reply(text=text, **about) if text else Reply(error="an empty answer", **about)
