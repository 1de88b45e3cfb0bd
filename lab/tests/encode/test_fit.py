from __future__ import annotations

import numpy as np
import pytest

from sigma_lab.encode.everyday import ASKED, KINDS, LEFT_OUT, SHARED, everyday, kinds_of_prompts
from sigma_lab.encode.fit import DIRECTIONS, fit, logistic, whitening
from sigma_mem.encode.reference import prompts, subjects
from sigma_mem.encode.static import StaticEncoder, direction, fitted

pytest.importorskip("wordllama")


def test_whitening_makes_the_covariance_one() -> None:
    rng = np.random.default_rng(0)
    h = rng.normal(size=(400, 6)) @ rng.normal(size=(6, 6)) + 3.0
    mean, whiten = whitening(h, 4)
    z = (h - mean) @ whiten
    np.testing.assert_allclose(z.T @ z / len(z), np.eye(4), atol=1e-9)


def test_logistic_ends_where_its_gradient_is_zero() -> None:
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(300, 4)), rng.integers(0, 3, 300)
    W, b = logistic(x, y, penalty=0.01)
    p = np.exp(x @ W + b)
    p /= p.sum(axis=1, keepdims=True)
    residual = p - np.eye(3)[y]
    np.testing.assert_allclose(x.T @ residual / 300 + 0.02 * W, 0.0, atol=1e-7)
    np.testing.assert_allclose(residual.mean(axis=0), 0.0, atol=1e-7)


def test_prompts_are_the_same_for_the_same_seed() -> None:
    assert prompts(3, seed=5) == prompts(3, seed=5)
    assert prompts(3, seed=5) != prompts(3, seed=6)


def test_every_subject_has_phrases_enough_for_the_forms() -> None:
    known = subjects()
    assert len(known) == 60
    assert min(map(len, known.values())) >= 15
    texts, labels = prompts(2)
    assert len(texts) == len(labels) == 60 * 2 + 3 * 4
    plain = [text for text in texts if "\\" not in text]  # LaTeX has braces of its own
    assert not any("{" + key + "}" in text for text in plain for key in "abcnmtuvs")


def test_everyday_requests_have_no_blanks_left() -> None:
    texts, labels = kinds_of_prompts(1)
    assert len(texts) == len(labels)
    assert len(set(labels)) == StaticEncoder().rank - 1
    plain = [text for text in texts if "\\" not in text]
    assert not any("{" + key + "}" in text for text in plain for key in ("a", "b", "b2", "n", "t", "w", "e"))
    assert (texts, labels) == kinds_of_prompts(1)


def test_the_shipped_arrays_know_prompts_they_were_not_fitted_on() -> None:
    texts, labels = prompts(6, seed=99)
    more, kinds = everyday(KINDS + ASKED, 6, seed=99)
    pairs = [(t, SHARED.get(k, k)) for t, k in zip(texts + more, labels + kinds, strict=True)]
    texts, labels = map(list, zip(*[(t, k) for t, k in pairs if k not in LEFT_OUT], strict=True))
    phi = StaticEncoder().encode(texts)[:, :-1]
    names = sorted(set(labels))
    right = [names[i] == label for i, label in zip(phi.argmax(axis=1), labels, strict=True)]
    assert np.mean(right) > 0.7


def test_fitting_gives_arrays_of_the_shipped_shapes() -> None:
    encoder = StaticEncoder()
    arrays = fit(encoder, scale=1)
    shipped = fitted("static-1")
    assert {name: array.shape for name, array in arrays.items()} == {
        name: array.shape for name, array in shipped.items()
    }
    assert direction(encoder.embed(["Why?"]), arrays["mean"], arrays["whiten"]).shape == (1, DIRECTIONS)
