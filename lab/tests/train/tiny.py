"""A tiny random center and a small stream whose peers are good at different things."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from sigma_mem.center.center import Center
from sigma_mem.center.prompt import JudgePrompt
from sigma_mem.events import Answer, Event
from sigma_mem.streams import Stream

torch.set_num_threads(1)  # tiny models gain nothing from more
WORDS = ("Yes No yes no " * 40, "Should this answer be trusted? Reply with Yes or No. " * 10)


def tiny_tokenizer() -> Any:
    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<|end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    raw.train_from_iterator(WORDS, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=raw, bos_token="<|end|>", eos_token="<|end|>")


def tiny_center(seed: int = 0, width: int = 32, cache: Path | None = None) -> Center:
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=400,
        hidden_size=width,
        intermediate_size=48,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
    )
    model = LlamaForCausalLM(config).eval().requires_grad_(False)
    prompt = JudgePrompt(
        instruction="Judge.", request="Trust? Yes or No.", question_tokens=16, answer_tokens=16
    )
    return Center(model, tiny_tokenizer(), name=f"tiny-{seed}", prompt=prompt, cache=cache)


def saved_center(folder: Path, seed: int = 0, positions: int = 256) -> Center:
    """A tiny center whose model and tokenizer are in the folder."""
    made = tiny_center(seed)
    made.model.config.max_position_embeddings = positions  # type: ignore[union-attr]
    made.model.save_pretrained(folder)  # type: ignore[operator]
    made.writer.tokenizer.save_pretrained(folder)
    return made


def tiny_stream(n: int = 120, peers: int = 4, seed: int = 0) -> Stream:
    """Peer p is right nine times in ten in its own domain, and seldom elsewhere; no answer shows it."""
    rng = np.random.default_rng(seed)
    names = tuple(f"peer{p}" for p in range(peers))
    events = []
    for i in range(n):
        domain = i % 3
        right = {p: rng.random() < (0.9 if k % 3 == domain else 0.2) for k, p in enumerate(names)}
        answers = {p: Answer(f"{(7 * i + 3 * k) % 11}", str(right[p])) for k, p in enumerate(names)}
        labels = {p: 1.0 if right[p] else -1.0 for p in names}
        events.append(Event(f"e{i}", f"{'abc'[domain] * 3} {i}", answers, labels, domain=f"d{domain}"))
    return Stream("tiny", names, tuple(events))


def tiny_features(stream: Stream, seed: int = 0) -> Any:
    """Features that point to the domain, with noise."""
    rng = np.random.default_rng(seed)
    domains = [int(e.domain[1:]) for e in stream]
    return np.eye(3)[domains] @ rng.normal(size=(3, 8)) + 0.3 * rng.normal(size=(len(stream), 8))
