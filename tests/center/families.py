"""Tiny random models of the families a center may come from."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch
import transformers

VOCAB, WIDTH, BLOCKS = 400, 32, 6
_COMMON: dict[str, Any] = {
    "vocab_size": VOCAB,
    "hidden_size": WIDTH,
    "intermediate_size": 48,
    "num_hidden_layers": BLOCKS,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_HEAD = {"head_dim": 8}
_EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "decoder_sparse_step": 1}

# name → (configuration class, model class, settings beyond the common ones)
FAMILIES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "llama": ("LlamaConfig", "LlamaForCausalLM", {}),
    "qwen2": ("Qwen2Config", "Qwen2ForCausalLM", {}),
    "qwen3": ("Qwen3Config", "Qwen3ForCausalLM", _HEAD),
    "qwen3-moe": ("Qwen3MoeConfig", "Qwen3MoeForCausalLM", {**_HEAD, **_EXPERTS}),
    "qwen3.5": (
        "Qwen3_5TextConfig",
        "Qwen3_5ForCausalLM",
        {
            "head_dim": 16,
            "linear_num_key_heads": 2,
            "linear_num_value_heads": 4,
            "linear_key_head_dim": 8,
            "linear_value_head_dim": 8,
            "layer_types": ["linear_attention", "full_attention"] * (BLOCKS // 2),
        },
    ),
    "gemma2": ("Gemma2Config", "Gemma2ForCausalLM", {**_HEAD, "sliding_window": 16}),
    "gemma3": ("Gemma3TextConfig", "Gemma3ForCausalLM", {**_HEAD, "sliding_window": 16}),
    "phi3": ("Phi3Config", "Phi3ForCausalLM", {}),
    "mistral": ("MistralConfig", "MistralForCausalLM", {"sliding_window": 16}),
    "smollm3": ("SmolLM3Config", "SmolLM3ForCausalLM", {}),
    "gpt-oss": (
        "GptOssConfig",
        "GptOssForCausalLM",
        {**_HEAD, "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 16},
    ),
    "granite": ("GraniteConfig", "GraniteForCausalLM", {"embedding_multiplier": 12.0, "logits_scaling": 8.0}),
    "gpt2": (
        "GPT2Config",
        "GPT2LMHeadModel",
        {"n_embd": WIDTH, "n_layer": BLOCKS, "n_head": 4, "n_positions": 256},
    ),
}


# One of every mechanism: the common case, a linear attention, soft caps, sinks and experts, sliding windows,
# scaled embeddings, positional arguments. The others differ in numbers only.
_DISTINCT = ("llama", "qwen3.5", "gemma2", "gpt-oss", "mistral", "granite", "gpt2")
EVERY_FAMILY = [
    pytest.param(name, marks=() if name in _DISTINCT else pytest.mark.endurance) for name in FAMILIES
]


@cache
def tiny(family: str, seed: int = 0) -> Any:
    """A frozen random model of ``family`` with 6 blocks of width 32, the same object every time."""
    config_class, model_class, settings = FAMILIES[family]
    common = (
        _COMMON
        if family != "gpt2"
        else {k: _COMMON[k] for k in ("vocab_size", "bos_token_id", "eos_token_id")}
    )
    config = getattr(transformers, config_class)(**{**common, **settings})
    torch.manual_seed(seed)
    model = getattr(transformers, model_class)(config)
    return model.eval().requires_grad_(False)


def token_ids(rows: int, length: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(3, VOCAB, (rows, length), generator=torch.Generator().manual_seed(seed))
