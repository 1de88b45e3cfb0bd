"""Real SmolLM2-135M-Instruct on real answers."""

from __future__ import annotations

import gzip
import json
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from sigma_mem.center.blocks import steered
from sigma_mem.center.center import Center
from sigma_mem.center.project import Steering

STREAM = Path(__file__).parents[3] / "shared" / "data" / "mmlu-pro.jsonl.gz"
PEERS = ("mathstral-7B", "Phi-3-mini-4k-instruct", "c4ai-command-r-v01")
ARITHMETIC = (
    "What is 17 * 23?",
    ["17 * 23 = 391.", "It is 381.", "391, because 17 * 20 + 17 * 3 = 340 + 51."],
)


def event() -> tuple[str, list[str]]:
    """A short real event, or three written answers where the streams are absent."""
    if not STREAM.exists():
        return ARITHMETIC
    with gzip.open(STREAM, "rt", encoding="utf-8") as file:
        found = (json.loads(line) for line in islice(file, 100, 140))
        shortest = min(
            found, key=lambda e: len(e["question"]) + sum(len(e["answers"][p]["text"]) for p in PEERS)
        )
    return shortest["question"], [shortest["answers"][p]["text"] for p in PEERS]


def test_it_is_found_split_and_read(smollm2: Center) -> None:
    assert (len(smollm2.decoder.blocks), smollm2.first, smollm2.hidden) == (30, 15, 576)
    assert smollm2.fast
    assert smollm2.shares_prefix
    forms = [smollm2.writer.tokenizer.decode([i]) for i in (*smollm2.verdict.yes, *smollm2.verdict.no)]
    assert forms == ["Yes", " Yes", "yes", " yes", "No", " No", "no", " no"]
    # Without the attention sink; with it the mean norm would be ten times this.
    assert 140 < smollm2.h_median < 170


def test_an_empty_memory_gives_the_base_judges_logits_exactly(smollm2: Center) -> None:
    question, answers = ARITHMETIC
    ids = torch.tensor([smollm2.writer.row(question, answers[0]).ids])
    with torch.no_grad():
        base = smollm2.model(ids).logits
        with steered(smollm2.decoder.blocks, torch.zeros(1, smollm2.hidden)):
            assert torch.equal(smollm2.model(ids).logits, base)
    plain = smollm2.judge(question, answers)
    steering = Steering(smollm2.hidden, 4, smollm2.h_median, gain=0.02)
    torch.nn.init.normal_(steering.projection)
    try:
        smollm2.use(steering)
        empty = smollm2.judge(question, answers, np.zeros((3, 4)))
        assert np.array_equal(empty.utility, plain.utility)
        full = smollm2.judge(question, answers, np.ones((3, 4)))
        assert not np.allclose(full.utility, plain.utility, atol=1e-3)
    finally:
        smollm2.use(None)
    assert ((plain.yes_no_mass > 0.01) & (plain.yes_no_mass < 1)).all()


def test_it_says_what_plain_forwards_with_hooks_say(smollm2: Center) -> None:
    question, answers = event()
    delta = torch.randn(3, smollm2.hidden, generator=torch.Generator().manual_seed(0)) * 0.05
    ours = smollm2.utilities([(question, answer) for answer in answers], delta).utility
    for i, answer in enumerate(answers):
        ids = torch.tensor([smollm2.writer.row(question, answer).ids])
        with torch.no_grad(), steered(smollm2.decoder.blocks, delta[i : i + 1]):
            logits = smollm2.model(ids).logits[:, -1]
        assert ours[i] == pytest.approx(float(smollm2.verdict.from_logits(logits)[0]), abs=1e-3)


def test_a_step_along_the_gradient_raises_utility_as_predicted(smollm2: Center) -> None:
    question, answers = ARITHMETIC
    rows = smollm2.rows([(question, answer) for answer in answers])
    delta = torch.zeros(3, smollm2.hidden, requires_grad=True)
    base = smollm2.upper(rows, delta)[0]
    base.sum().backward()
    assert delta.grad is not None
    unit = delta.grad / delta.grad.norm(dim=1, keepdim=True)
    step = 0.002 * smollm2.h_median * unit
    with torch.no_grad():
        moved = smollm2.upper(rows, step)[0]
    predicted = (delta.grad * step).sum(dim=1)
    assert (predicted > 0.05).all()
    torch.testing.assert_close(moved - base.detach(), predicted, rtol=0.25, atol=0.01)


def test_states_from_the_cache_give_the_same_utilities(smollm2: Center, tmp_path: Path) -> None:
    pairs = [(ARITHMETIC[0], answer) for answer in ARITHMETIC[1]]
    kept: Any = Center(smollm2.model, smollm2.writer.tokenizer, cache=tmp_path)
    fresh = kept.judge_pairs(pairs).utility
    kept.forget()
    again = kept.judge_pairs(pairs).utility
    assert np.array_equal(fresh, again)
    assert kept._lower.cache.hits >= 6  # prefix and end of every row
