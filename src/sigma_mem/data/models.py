"""Models on this machine as peers: Hugging Face models by transformers, GGUF files by llama.cpp."""

import inspect
import threading
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from sigma_mem.data.asking import Body, Reply
from sigma_mem.data.peers import PeerSettings
from sigma_mem.data.task_prompts import clean_text
from sigma_mem.errors import InputError
from sigma_mem.extras import require


class HuggingFaceModel:
    """Generates with a causal language model; ``smollm2`` is what ``sigma-mem center pull`` fetches."""

    def __init__(self, peer: PeerSettings) -> None:
        self._transformers = require(
            "transformers", extra="center", purpose=f"peer {peer.name!r} ({peer.spec})"
        )
        self._model, self._tokenizer, self._lock = _loaded(peer.target, peer.dtype, peer.device)
        self._name = peer.target
        limit = getattr(self._model.config, "max_position_embeddings", None)
        self._longest = min(limit if isinstance(limit, int) else peer.context, peer.context)
        # Most models can leave out the logits of all tokens but the last, a fifth of the work of a small one.
        takes = inspect.signature(self._model.forward).parameters
        self._last_only = {"logits_to_keep": 1} if "logits_to_keep" in takes else {}

    def ask(self, requests: Sequence[Body]) -> list[Reply]:
        """Write the answers of one batch, or choose them; a prompt that leaves no room is a failure."""
        written = [request for request in requests if "choices" not in request]
        with self._lock:  # of the tokenizer too: a fast one keeps its padding between calls
            answers = iter(self._write(written) if written else [])
            return [self._choose(r) if "choices" in r else next(answers) for r in requests]

    def _write(self, requests: Sequence[Body]) -> list[Reply]:
        texts = [chat_text(self._tokenizer, request["messages"]) for request in requests]
        lengths = [len(self._tokenizer.encode(text, add_special_tokens=False)) for text in texts]
        room = requests[0]["max_tokens"]
        replies = [self._too_long(length, room) for length in lengths]
        fits = [i for i, failure in enumerate(replies) if failure is None]
        if fits:
            answers = self._generate([texts[i] for i in fits], requests[fits[0]])
            for i, (text, n_tokens, finish) in zip(fits, answers, strict=True):
                counted: dict[str, Any] = {"tokens_in": lengths[i], "tokens_out": n_tokens, "finish": finish}
                replies[i] = _nonempty(text, model=self._name, **counted)
        return [reply for reply in replies if reply is not None]

    def _choose(self, request: Body) -> Reply:
        """The option whose text has the highest mean log-likelihood per token, after "Answer: "."""
        asked = f"{chat_text(self._tokenizer, request['messages'])}Answer:"
        start = self._tokenizer.encode(asked, add_special_tokens=False)
        ends = [
            self._tokenizer.encode(f" {text}", add_special_tokens=False) for _, text in request["choices"]
        ]
        longest = max(map(len, ends))
        if (failure := self._too_long(len(start), longest)) is not None:
            return failure
        each = self._log_likelihoods(start, ends)
        means = [sum(row[: len(end)]) / max(len(end), 1) for row, end in zip(each, ends, strict=True)]
        label = request["choices"][means.index(max(means))][0]
        about: dict[str, Any] = {"model": self._name, "finish": "choice", "tokens_out": 0}
        return Reply(text=f"Answer: {label}", tokens_in=len(start), **about)

    def _log_likelihoods(self, start: list[int], ends: list[list[int]]) -> list[list[float]]:
        """The log-likelihood of every token of every end; what they share is read once."""
        pad = {"padding_side": "right", "return_tensors": "pt"}
        device = self._model.device
        shared = self._tokenizer.pad({"input_ids": [start]}, **pad)["input_ids"].to(device)
        # No mask: what is padded on the right is seen by nothing before it.
        ids = self._tokenizer.pad({"input_ids": ends}, **pad)["input_ids"].to(device)
        first = self._model(shared, use_cache=True, **self._last_only)
        first.past_key_values.reorder_cache(ids.new_zeros(len(ends)))  # one copy for every end
        later = self._model(ids, past_key_values=first.past_key_values).logits
        at_first = first.logits[:, -1].float().log_softmax(-1)[0][ids[:, 0]]
        at_later = later[:, :-1].float().log_softmax(-1).gather(-1, ids[:, 1:, None])[..., 0]
        pairs = zip(at_first.tolist(), at_later.tolist(), strict=True)
        return [[begin, *rest] for begin, rest in pairs]

    def _too_long(self, length: int, room: int) -> Reply | None:
        if length + room <= self._longest:
            return None
        reason = f"the prompt has {length} tokens, which with {room} for the answer exceed {self._longest}"
        return Reply(error=reason)

    def close(self) -> None:
        """Nothing to end: a batch runs to its end."""

    def _generate(self, texts: list[str], how: Body) -> list[tuple[str, int, str]]:
        inputs = self._tokenizer(texts, return_tensors="pt", padding=True, add_special_tokens=False)
        options: dict[str, Any] = {"max_new_tokens": how["max_tokens"], "do_sample": how["temperature"] > 0}
        if options["do_sample"]:
            self._transformers.set_seed(how["seed"])
            options |= {"temperature": how["temperature"], "top_p": how["top_p"], "top_k": 0}
        if how["stop"]:
            options |= {"stop_strings": how["stop"], "tokenizer": self._tokenizer}
        options["pad_token_id"] = self._tokenizer.pad_token_id
        inputs = {
            name: values.to(self._model.device) for name, values in inputs.items() if name != "token_type_ids"
        }
        out = self._model.generate(**inputs, **options)[:, inputs["input_ids"].shape[1] :].tolist()
        return [self._finished(row, how) for row in out]

    def _finished(self, row: list[int], how: Body) -> tuple[str, int, str]:
        """Text, number of tokens and why it ends there, of one row of a batch."""
        ends = self._ends()
        length = next((i for i, token in enumerate(row) if token in ends), None)
        kept = row if length is None else row[:length]
        text = self._tokenizer.decode(kept, skip_special_tokens=True)
        stops = [text.index(stop) for stop in how["stop"] if stop in text]
        finish = "stop" if stops or length is not None else "length"
        return text[: min(stops)] if stops else text, len(kept), finish

    def _ends(self) -> set[int]:
        ends = self._model.generation_config.eos_token_id
        found = {ends} if isinstance(ends, int) else set(ends or ())
        return found | {self._tokenizer.eos_token_id, self._tokenizer.pad_token_id}


@cache
def _loaded(name: str, dtype: str, device: str | None) -> tuple[Any, Any, threading.Lock]:
    """Model, tokenizer and a lock: two peers with one model (zero-shot and few-shot) share them."""
    from sigma_mem.center.load import load_model

    model, tokenizer = load_model(name, dtype=dtype, device=device)
    tokenizer.padding_side = "left"  # generation goes on from the last place of every row
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    return model, tokenizer, threading.Lock()


class GgufFile:
    """Generates with a GGUF file through llama-cpp-python."""

    def __init__(self, peer: PeerSettings) -> None:
        if not Path(peer.target).is_file():
            raise InputError(f"peer {peer.name!r}: there is no file {peer.target}; expected a GGUF file")
        llama_cpp = require("llama_cpp", extra="gguf", purpose=f"peer {peer.name!r} ({peer.spec})")
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
