from __future__ import annotations

import numpy as np
import pytest

from sigma_mem.encode.everyday import ASKED, KINDS, LEFT_OUT, SHARED, everyday, kinds_of_prompts
from sigma_mem.encode.fit import DIRECTIONS, fit, logistic, whitening
from sigma_mem.encode.reference import prompts, subjects
from sigma_mem.encode.static import StaticEncoder, direction, fitted, project

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


@pytest.mark.parametrize("version", ["1", "2"])
def test_the_shipped_arrays_know_prompts_they_were_not_fitted_on(version: str) -> None:
    texts, labels = prompts(6, seed=99)
    if version == "2":
        more, kinds = everyday(KINDS + ASKED, 6, seed=99)
        pairs = [(t, SHARED.get(k, k)) for t, k in zip(texts + more, labels + kinds, strict=True)]
        texts, labels = map(list, zip(*[(t, k) for t, k in pairs if k not in LEFT_OUT], strict=True))
    arrays = fitted(f"static-{version}")
    phi = project(StaticEncoder(version).embed(texts), **arrays)[:, :-1]
    names = sorted(set(labels))
    # Two labels of version 1 stand for the same generated tasks as a subject: count either as right.
    twin = {"word problem": "word problems", "code": "python programming"}
    guess = [names[i] for i in phi.argmax(axis=1)]
    right = [twin.get(a, a) == twin.get(b, b) for a, b in zip(guess, labels, strict=True)]
    assert np.mean(right) > 0.7


def test_fitting_gives_arrays_of_the_shipped_shapes() -> None:
    encoder = StaticEncoder()
    arrays = fit(encoder, scale=1)
    shipped = fitted("static-2")
    assert {name: array.shape for name, array in arrays.items()} == {
        name: array.shape for name, array in shipped.items()
    }
    assert direction(encoder.embed(["Why?"]), arrays["mean"], arrays["whiten"]).shape == (1, DIRECTIONS)
