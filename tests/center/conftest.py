"""A tokenizer trained on the spot, tiny models, and real SmolLM2 where it can be had."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the extra [center]")

from sigma_mem.center.center import Center  # noqa: E402
from sigma_mem.center.errors import DownloadError  # noqa: E402
from sigma_mem.center.load import pull_default  # noqa: E402
from sigma_mem.center.phi import CenterEncoder, CenterFeatures, PhiMap  # noqa: E402

from .families import VOCAB, tiny  # noqa: E402

torch.set_num_threads(1)  # for fixtures of every scope; tiny models gain nothing from more

_CHAT = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
_TEXT = [
    "Yes No yes no Yes No yes no " * 40,
    "Another model answered the question below. Decide whether its answer should be trusted. " * 10,
    "Should this answer be trusted? Reply with Yes or No. Question: Proposed answer: " * 10,
]


def make_tokenizer(chat: str | None = _CHAT, text: list[str] = _TEXT, vocab: int = VOCAB) -> Any:
    """A byte-level BPE tokenizer, so that any text can be encoded."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    special = ["<|end|>", "<|im_start|>", "<|im_end|>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    raw.train_from_iterator(text, trainer)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=raw, bos_token="<|im_start|>", eos_token="<|im_end|>", pad_token="<|im_end|>"
    )
    tokenizer.chat_template = chat
    return tokenizer


@pytest.fixture(scope="session")
def tokenizer() -> Any:
    return make_tokenizer()


@pytest.fixture
def tiny_center(tokenizer: Any) -> Center:
    return Center(tiny("llama"), tokenizer)


def whitened(center: Center, rank: int) -> CenterEncoder:
    """The center's own features, whitened on a few questions: an encoder that nobody trained."""
    source = CenterFeatures(center)
    questions = [f"What is {i} {sign} {j}?" for i in range(4) for j in range(3) for sign in "+-*"]
    h = source.features(questions)
    mean = h.mean(axis=0)
    _, spread, axes = np.linalg.svd(h - mean, full_matrices=False)
    whiten = axes[: rank - 1].T * (np.sqrt(len(h)) / spread[: rank - 1])
    return CenterEncoder(source, PhiMap(mean, whiten.T, np.eye(rank - 1), 1.0))


@pytest.fixture(scope="session")
def smollm2() -> Center:
    """Real SmolLM2, from the cache or freshly pulled."""
    try:
        pull_default()
    except DownloadError as error:
        pytest.skip(f"SmolLM2 is not cached and cannot be fetched here: {error}")
    return Center.load()
