from __future__ import annotations

import copy
import resource
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from sigma_mem.center.center import Center
from sigma_mem.center.errors import CenterError, ModelShapeError
from sigma_mem.center.load import fingerprint, load_model
from sigma_mem.center.project import Steering
from sigma_mem.center.prompt import JudgePrompt
from sigma_mem.center.state_cache import StateCache
from sigma_mem.errors import InputError

from .families import BLOCKS, EVERY_FAMILY, WIDTH, tiny

QUESTION = "What is 17 * 23?"
ANSWERS = ["17 * 23 = 391", "It is 381, I think, because 17 * 20 is 340 and 17 * 3 is 41.", "no idea"]
PAIRS = [(QUESTION, answer) for answer in ANSWERS]


def learned(center: Center, rank: int = 5) -> Steering:
    steering = Steering(center.hidden, rank, center.h_median, gain=0.02)
    with torch.no_grad():
        steering.projection.copy_(
            torch.randn(center.hidden, rank, generator=torch.Generator().manual_seed(2))
        )
    return steering


def readouts(rank: int = 5) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).normal(size=(3, rank)) * 0.1


@pytest.mark.parametrize("family", EVERY_FAMILY)
def test_the_fast_way_says_what_plain_forwards_say(family: str, tokenizer: Any) -> None:
    model = tiny(family)
    fast, plain = Center(model, tokenizer), Center(model, tokenizer, fast=False)
    assert (fast.fast, plain.fast) == (True, False)
    assert fast.first == BLOCKS // 2
    assert fast.h_median == pytest.approx(plain.h_median)
    for center in (fast, plain):
        center.use(learned(center))
    ours, theirs = fast.judge(QUESTION, ANSWERS, readouts()), plain.judge(QUESTION, ANSWERS, readouts())
    np.testing.assert_allclose(ours.utility, theirs.utility, atol=2e-4)
    np.testing.assert_allclose(ours.yes_no_mass, theirs.yes_no_mass, rtol=1e-3)
    assert not np.allclose(ours.utility, fast.judge(QUESTION, ANSWERS).utility, atol=1e-5)


@pytest.mark.parametrize("family", EVERY_FAMILY)
def test_utilities_are_those_of_the_models_own_logits(family: str, tokenizer: Any) -> None:
    center = Center(tiny(family), tokenizer)
    result = center.judge(QUESTION, ANSWERS)
    for pair, utility, mass in zip(PAIRS, result.utility, result.yes_no_mass, strict=True):
        ids = torch.tensor([center.writer.row(*pair).ids])
        probs = center.model(ids).logits[0, -1].double().softmax(0)
        yes, no = probs[list(center.verdict.yes)].sum(), probs[list(center.verdict.no)].sum()
        assert utility == pytest.approx(float(yes.log() - no.log()), abs=2e-4)
        assert mass == pytest.approx(float(yes + no), rel=1e-3)


def test_empty_memory_is_the_base_judge_bit_for_bit(tiny_center: Center) -> None:
    base = tiny_center.judge(QUESTION, ANSWERS)
    tiny_center.use(learned(tiny_center))
    steered = tiny_center.judge(QUESTION, ANSWERS, np.zeros((3, 5)))
    assert np.array_equal(base.utility, steered.utility)
    assert np.array_equal(base.yes_no_mass, steered.yes_no_mass)
    assert np.array_equal(base.utility, tiny_center.judge(QUESTION, ANSWERS).utility)
    one = np.zeros((3, 5))
    one[0] = 0.1  # the memory of one peer leaves the others at the base judge, to rounding
    moved = tiny_center.judge(QUESTION, ANSWERS, one).utility
    np.testing.assert_allclose(moved[1:], base.utility[1:], rtol=0, atol=1e-6)
    assert abs(moved[0] - base.utility[0]) > 1e-4


def test_a_batch_of_pairs_equals_single_calls(tiny_center: Center) -> None:
    tiny_center.use(learned(tiny_center))
    pairs = [*PAIRS, ("Why is the sky blue?", "Rayleigh"), PAIRS[1]]
    values = np.random.default_rng(1).normal(size=(5, 5)) * 0.1
    together = tiny_center.judge_pairs(pairs, values).utility
    alone = [tiny_center.judge(q, [a], values[i : i + 1]).utility[0] for i, (q, a) in enumerate(pairs)]
    np.testing.assert_allclose(together, alone, atol=1e-4)


def test_the_gradient_of_the_upper_half_is_that_of_the_whole_model(tokenizer: Any) -> None:
    model = tiny("qwen3")
    grads = []
    for fast in (True, False):
        center = Center(model, tokenizer, fast=fast)
        delta = torch.full((3, WIDTH), 0.01, requires_grad=True)
        center.upper(center.rows(PAIRS), delta)[0].sum().backward()
        assert delta.grad is not None
        grads.append(delta.grad)
    torch.testing.assert_close(grads[0], grads[1], rtol=1e-3, atol=1e-5)
    assert grads[0].abs().max() > 1e-3


def test_the_gradient_predicts_a_small_step(tiny_center: Center) -> None:
    rows = tiny_center.rows(PAIRS)
    delta = torch.zeros(3, WIDTH, requires_grad=True)
    base = tiny_center.upper(rows, delta)[0]
    base.sum().backward()
    assert delta.grad is not None
    step = 1e-2 * tiny_center.h_median * delta.grad / delta.grad.norm(dim=1, keepdim=True)
    with torch.no_grad():
        moved = tiny_center.upper(rows, step)[0]
    torch.testing.assert_close(moved - base.detach(), (delta.grad * step).sum(1), rtol=0.1, atol=1e-4)


def test_only_the_last_token_can_be_steered(tokenizer: Any) -> None:
    model = tiny("llama")
    results = {}
    for fast in (True, False):
        center = Center(model, tokenizer, scope="last", fast=fast)
        center.use(learned(center))
        results[fast] = center.judge(QUESTION, ANSWERS, readouts()).utility
    np.testing.assert_allclose(results[True], results[False], atol=2e-4)
    everywhere = Center(model, tokenizer)
    everywhere.use(learned(everywhere))
    assert not np.allclose(results[True], everywhere.judge(QUESTION, ANSWERS, readouts()).utility, atol=1e-4)


def test_other_block_ranges(tokenizer: Any) -> None:
    model = tiny("llama")
    for first, last in ((0, 2), (1, 1), (5, 5)):
        fast, plain = (Center(model, tokenizer, first=first, last=last, fast=f) for f in (True, False))
        for center in (fast, plain):
            center.use(learned(center))
        np.testing.assert_allclose(
            fast.judge(QUESTION, ANSWERS, readouts()).utility,
            plain.judge(QUESTION, ANSWERS, readouts()).utility,
            atol=2e-4,
        )
    with pytest.raises(InputError, match="block range 3…9"):
        Center(model, tokenizer, last=9)


def test_the_cache_is_found_again_by_another_center_and_other_peers(tokenizer: Any, tmp_path: Path) -> None:
    model = tiny("llama")
    first = Center(model, tokenizer, cache=tmp_path)
    fresh = first.judge(QUESTION, ANSWERS).utility
    second = Center(model, tokenizer, cache=tmp_path)

    def refuse(*_: Any) -> None:
        raise AssertionError("the lower half ran again")

    lower = second.decoder.blocks[: second.first]
    handles = [block.register_forward_pre_hook(refuse) for block in lower]
    swapped = second.judge(QUESTION, ANSWERS[::-1]).utility
    for handle in handles:
        handle.remove()
    np.testing.assert_allclose(swapped[::-1], fresh, rtol=0, atol=1e-6)


def test_other_weights_do_not_find_the_cache(tokenizer: Any, tmp_path: Path) -> None:
    one, two = Center(tiny("llama"), tokenizer, cache=tmp_path), Center(tiny("llama", seed=1), tokenizer)
    one.judge(QUESTION, ANSWERS)
    cached = Center(two.model, tokenizer, cache=tmp_path)
    np.testing.assert_allclose(
        cached.judge(QUESTION, ANSWERS).utility, two.judge(QUESTION, ANSWERS).utility, rtol=0, atol=1e-6
    )


def test_threads_may_share_a_center(tiny_center: Center) -> None:
    tiny_center.use(learned(tiny_center))
    values = [np.random.default_rng(i).normal(size=(3, 5)) * 0.1 for i in range(8)]
    want = [tiny_center.judge(QUESTION, ANSWERS, v).utility for v in values]
    got: dict[int, Any] = {}

    def work(i: int) -> None:
        for _ in range(3):
            got[i] = tiny_center.judge(QUESTION, ANSWERS, values[i]).utility

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert min(np.abs(a - b).max() for i, a in enumerate(want) for b in want[:i]) > 1e-3
    for i in range(8):
        np.testing.assert_allclose(got[i], want[i], rtol=0, atol=1e-5)


def peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def test_a_ten_times_longer_stream_needs_no_more_memory_or_disk(tokenizer: Any, tmp_path: Path) -> None:
    cache = StateCache(tmp_path, max_bytes=1 << 17)
    center = Center(tiny("llama"), tokenizer, cache=cache)

    def score(events: range) -> None:
        for i in events:
            center.judge(f"What is {i} + 1?", [str(i + 1), str(i)])

    score(range(10))
    before, entries = peak_megabytes(), len(cache)
    score(range(10, 100))
    assert peak_megabytes() - before < 8
    assert cache.nbytes <= 1 << 17
    assert len(cache) <= 2 * entries


def test_any_pretrained_folder_loads_as_a_center(tokenizer: Any, tmp_path: Path) -> None:
    model = tiny("qwen3")
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    center = Center.load(str(tmp_path), dtype="float32", device="cpu")
    assert center.fingerprint == fingerprint(model)
    want = Center(model, tokenizer).judge(QUESTION, ANSWERS)
    np.testing.assert_allclose(center.judge(QUESTION, ANSWERS).utility, want.utility, atol=1e-5)
    half = Center.load(str(tmp_path), dtype="bfloat16")
    assert half.fingerprint == center.fingerprint
    np.testing.assert_allclose(half.judge(QUESTION, ANSWERS).utility, want.utility, atol=0.1)


def test_a_model_spread_by_a_device_map(tokenizer: Any, tmp_path: Path) -> None:
    pytest.importorskip("accelerate", reason="device_map needs accelerate")
    tiny("llama").save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    places = {"model.embed_tokens": "cpu", "model.norm": "cpu", "model.rotary_emb": "cpu", "lm_head": "cpu"}
    # Blocks 2 and 4 wait on disk and are moved in by accelerate's hooks, as between devices.
    places |= {f"model.layers.{i}": "disk" if i in (2, 4) else "cpu" for i in range(BLOCKS)}
    spread = Center(*load_model(str(tmp_path / "model"), device_map=places))
    assert spread.fast
    whole = Center.load(str(tmp_path / "model"))
    for center in (spread, whole):
        center.use(learned(center))
    np.testing.assert_allclose(
        spread.judge(QUESTION, ANSWERS, readouts()).utility,
        whole.judge(QUESTION, ANSWERS, readouts()).utility,
        atol=1e-5,
    )


def test_wrong_names_are_one_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)  # do not wait for a hub
    with pytest.raises(CenterError, match="cannot load 'no-such-owner/no-such-model'"):
        load_model("no-such-owner/no-such-model")
    with pytest.raises(CenterError, match=r"has no config\.json"):
        load_model(str(tmp_path))
    (tmp_path / "config.json").write_text('{"model_type": "no-such-kind"}')
    with pytest.raises(CenterError, match="as a causal language model"):
        load_model(str(tmp_path))
    with pytest.raises(InputError, match="dtype is 'float7'"):
        load_model(str(tmp_path), dtype="float7")
    with pytest.raises(InputError, match="expected one of the two"):
        load_model(str(tmp_path), device="cpu", device_map="auto")


def test_a_model_that_is_no_language_model_is_refused(tokenizer: Any) -> None:
    with pytest.raises(ModelShapeError, match="no decoder blocks"):
        Center(torch.nn.Linear(2, 2), tokenizer)
    headless = tiny("llama").model
    with pytest.raises(ModelShapeError, match="has no unembedding"):
        Center(headless, tokenizer, blocks_path="layers")


def test_bad_arguments_are_refused(tiny_center: Center, tokenizer: Any) -> None:
    tiny_center.use(learned(tiny_center))
    with pytest.raises(InputError, match=r"expected \(3, 5\)"):
        tiny_center.judge(QUESTION, ANSWERS, np.zeros((3, 4)))
    with pytest.raises(InputError, match="finite"):
        tiny_center.judge(QUESTION, ANSWERS, np.full((3, 5), np.nan))
    with pytest.raises(InputError, match=r"expected \(3, 32\)"):
        tiny_center.upper(tiny_center.rows(PAIRS), torch.zeros(2, WIDTH))
    with pytest.raises(InputError, match="no answer to judge"):
        tiny_center.judge(QUESTION, [])
    with pytest.raises(InputError, match="scope is 'some'"):
        Center(tiny_center.model, tokenizer, scope="some")  # type: ignore[arg-type]


def test_a_prompt_longer_than_the_model_reads_is_cut_to_fit(tokenizer: Any) -> None:
    center = Center(tiny("llama"), tokenizer, prompt=JudgePrompt(question_tokens=4000, answer_tokens=4000))
    row = center.writer.row("why " * 3000, "so " * 3000)
    assert len(row.ids) <= 256
    assert np.isfinite(center.judge("why " * 3000, ["so " * 3000]).utility).all()


def test_half_precision_takes_the_fast_way_and_reads_the_verdict_in_float32(tokenizer: Any) -> None:
    model = copy.deepcopy(tiny("llama")).to(torch.bfloat16)
    model.get_output_embeddings().weight.data *= 300.0  # logits of real size, whose rounding is not small
    half = Center(model, tokenizer)
    assert half.fast
    last = torch.randn(64, half.hidden, generator=torch.Generator().manual_seed(0)).bfloat16()
    exact = half.verdict.utility(last)
    weight = model.get_output_embeddings().weight.float()
    logits = last.float() @ weight.T
    torch.testing.assert_close(exact, half.verdict.from_logits(logits)[0], atol=1e-3, rtol=1e-4)
