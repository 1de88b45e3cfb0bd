"""Kinds: domains told from words, cross-fitted where training goes on with them."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra [center] is not installed")

from sigma_lab.train.kinds import fit_kinds, kinds_of  # noqa: E402

TOPICS = {"math": ["integral", "matrix", "theorem"], "law": ["court", "statute", "contract"]}


def texts_of(n: int, seed: int, known: bool = True) -> tuple[list[str], list[str]]:
    """Questions whose words tell the domain, or tell nothing."""
    rng = np.random.default_rng(seed)
    domains = [str(d) for d in rng.choice(list(TOPICS), n)]
    filler = [f"word{i}" for i in "abcdefgh"]
    texts = [
        " ".join([*(rng.choice(TOPICS[d], 1) if known else []), *rng.choice(filler, 3)]) for d in domains
    ]
    return texts, domains


def silent(what: str, done: int, total: int) -> None:
    """No progress."""


def test_domains_are_told_from_words() -> None:
    texts, domains = texts_of(200, seed=0)
    kinds = kinds_of(domains)
    z = np.random.default_rng(1).normal(size=(200, 5))
    found = fit_kinds(texts, z, kinds, (0.05, 100.0), silent)
    assert (found.logits.argmax(axis=1) == kinds).mean() == 1.0
    fresh, truth = texts_of(100, seed=2)
    logits = found.words.dot(fresh, found.words_W) + found.bias
    assert (logits.argmax(axis=1) == (np.array(truth) == "math")).all()  # law is 0, math is 1


def test_logits_are_of_fits_that_did_not_see_the_event() -> None:
    texts, domains = texts_of(120, seed=3, known=False)
    texts = [f"{text} own{'abcdefghij'[i % 10]}{'klmnopqrstuv'[i // 10]}" for i, text in enumerate(texts)]
    kinds = kinds_of(domains)
    z = np.random.default_rng(4).normal(size=(120, 60))
    found = fit_kinds(texts, z, kinds, (0.05, 1.0), silent)
    seen = found.words.dot(texts, found.words_W) + z @ found.features_W + found.bias
    assert (seen.argmax(axis=1) == kinds).mean() > 0.85  # learned by heart
    assert (found.logits.argmax(axis=1) == kinds).mean() < 0.65  # no better than guessing


def test_rare_domains_share_a_kind_and_there_are_at_most_64() -> None:
    assert kinds_of(["a"] * 10 + ["b"] * 3 + ["c"] * 12 + ["d"]).tolist() == [0] * 10 + [2] * 3 + [1] * 12 + [
        2
    ]
    assert kinds_of(["only"] * 20).max() == 0
    assert kinds_of([f"d{i % 90}" for i in range(900)]).max() == 63
