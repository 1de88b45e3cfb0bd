"""Many prompts at a time give what one prompt by itself gives, and what they share is read once."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs the extra [center]")

from sigma_lab.collect.decoding import BatchDecoder  # noqa: E402

SHARED = [*range(1, 31)]
PROMPTS = [[*SHARED, 40], [*SHARED, 41, 42, 43, 44], [*SHARED, 45, 46]]
OTHERS = [[*SHARED, 50, 51], [*SHARED, 52]]
OPTIONS = [[[5], [6, 7, 8]], [[9, 10], [11], [12, 13]], [[14], [15]]]


def make_model(family: str) -> Any:
    import transformers

    sizes = {"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 32, "vocab_size": 64}
    sizes |= {"num_key_value_heads": 2, "intermediate_size": 48, "max_position_embeddings": 128}
    configs = {
        "llama": lambda: transformers.LlamaConfig(**sizes),
        "window": lambda: transformers.MistralConfig(**sizes, sliding_window=12),
        "gpt2": lambda: transformers.GPT2Config(
            n_layer=2, n_head=4, n_embd=32, vocab_size=64, n_positions=128
        ),
        "alibi": lambda: transformers.BloomConfig(hidden_size=32, n_layer=2, n_head=4, vocab_size=64),
    }
    torch.manual_seed(3)
    return transformers.AutoModelForCausalLM.from_config(configs[family]()).eval()


@pytest.fixture(params=["llama", "window", "gpt2", "alibi"])
def model(request: pytest.FixtureRequest) -> Any:
    return make_model(request.param)


def naive_greedy(model: Any, prompt: list[int], n: int) -> list[int]:
    """One forward over everything for every token, without a cache."""
    written: list[int] = []
    with torch.no_grad():
        for _ in range(n):
            written.append(int(model(torch.tensor([prompt + written])).logits[0, -1].argmax()))
    return written


def naive_mean(model: Any, prompt: list[int], end: list[int]) -> float:
    with torch.no_grad():
        logits = model(torch.tensor([prompt + end])).logits[0, len(prompt) - 1 : -1]
    return -float(torch.nn.functional.cross_entropy(logits, torch.tensor(end)))


def greedy(logits: Any) -> Any:
    return logits.argmax(-1)


def test_a_batch_writes_what_a_plain_loop_writes(model):
    expected = [naive_greedy(model, prompt, 9) for prompt in [*PROMPTS, *OTHERS]]
    decoder = BatchDecoder(model)
    found = [decoder.write(batch, 9, greedy, lambda row: False) for batch in (PROMPTS, OTHERS, OTHERS[:1])]
    assert [row for batch in found[:2] for row in batch] == expected
    assert found[2] == [expected[3]]


def test_options_are_as_likely_as_one_by_one(model):
    expected = [
        naive_mean(model, prompt, end) for prompt, ends in zip(PROMPTS, OPTIONS, strict=True) for end in ends
    ]
    found = BatchDecoder(model).log_likelihoods(PROMPTS, OPTIONS)
    assert [mean for means in found for mean in means] == pytest.approx(expected, abs=1e-5)


def fed(model: Any, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Rows and tokens of every forward from now on."""
    seen: list[tuple[int, int]] = []
    whole = model.forward

    def forward(ids: Any, **options: Any) -> Any:
        seen.append(tuple(ids.shape))
        return whole(ids, **options)

    monkeypatch.setattr(model, "forward", forward)
    return seen


def test_what_prompts_share_is_read_once(monkeypatch):
    model = make_model("llama")
    decoder = BatchDecoder(model)
    seen = fed(model, monkeypatch)
    decoder.log_likelihoods(PROMPTS, [[[5], [6]]] * 3)
    assert seen == [(1, 30), (3, 4)], "the options have one token each: nothing more is read for them"
    decoder.log_likelihoods(OTHERS, [[[5, 6], [7]]] * 2)
    assert seen[2:] == [(2, 2), (4, 1)]


def test_a_window_counts_padding_so_nothing_is_shared(monkeypatch):
    model = make_model("window")
    decoder = BatchDecoder(model)
    seen = fed(model, monkeypatch)
    decoder.read(PROMPTS)
    decoder.read(OTHERS)
    assert seen == [(1, 30), (3, 34), (2, 32)], "the beginning is tried once, and not again"


def test_a_row_that_has_ended_is_not_fed_any_more(monkeypatch):
    model = make_model("llama")
    decoder = BatchDecoder(model)
    whole = decoder.write(PROMPTS, 6, greedy, lambda row: False)
    seen = fed(model, monkeypatch)
    ended = decoder.write(PROMPTS, 6, greedy, lambda row: row == whole[1][:2])
    assert ended == [whole[0], whole[1][:2], whole[2]]
    assert [rows for rows, tokens in seen if tokens == 1] == [3, 2, 2, 2, 2]


def test_shared_heads_attend_as_before():
    """With keys that several query heads share, a padded batch has transformers' own logits."""
    plain, shared = make_model("llama"), make_model("llama")
    assert plain.config._attn_implementation == "sdpa"
    ids = torch.tensor([[0, 0, 3, 4], [5, 6, 7, 8]])
    mask = torch.tensor([[0, 0, 1, 1], [1, 1, 1, 1]])
    BatchDecoder(shared)
    assert shared.config._attn_implementation != "sdpa"
    with torch.no_grad():
        one, other = (m(ids, attention_mask=mask).logits[:, -1] for m in (plain, shared))
    assert torch.allclose(one, other, atol=1e-6)
