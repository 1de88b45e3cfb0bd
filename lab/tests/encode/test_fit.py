import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from sigma_lab.encode.everyday import ASKED, KINDS, LEFT_OUT, SHARED, everyday, kinds_of_prompts
from sigma_lab.encode.fit import DIRECTIONS, fit_static, logistic, whitening
from sigma_lab.encode.reference import prompts, subjects
from sigma_lab.encode.wordllama import _TOKENIZER, _folder, raw_means, token_vectors
from sigma_mem.encode import static
from sigma_mem.encode.glossary import in_english
from sigma_mem.encode.sentence import typical_prompts
from sigma_mem.encode.static import DATA, StaticEncoder

pytest.importorskip("wordllama")
tokenizers = pytest.importorskip("tokenizers")
FILES = ["static-1-tokens.npy", "static-1.npz", "tokens.model"]


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


def test_fitting_writes_files_of_the_shipped_shapes(tmp_path: Path) -> None:
    fit_static(tmp_path, scale=1)
    assert sorted(file.name for file in tmp_path.iterdir()) == FILES
    tokens, shipped = (np.load(folder / FILES[0]) for folder in (tmp_path, DATA))
    assert (tokens.shape, tokens.dtype) == (shipped.shape, shipped.dtype) == ((32000, DIRECTIONS), np.float16)
    for name, array in np.load(tmp_path / FILES[1]).items():
        assert array.shape == np.load(DATA / FILES[1])[name].shape
    assert (tmp_path / FILES[2]).read_bytes() == (DATA / FILES[2]).read_bytes()


def test_shipped_token_vectors_are_wordllamas_in_other_coordinates() -> None:
    shipped = np.load(DATA / FILES[0]).astype(np.float64)
    vectors = np.column_stack([token_vectors().astype(np.float64), np.ones(len(shipped))])
    affine = np.linalg.lstsq(vectors, shipped, rcond=None)[0]
    assert np.abs(vectors @ affine - shipped).max() < 0.02


def test_tokens_are_those_of_wordllamas_own_tokenizer() -> None:
    tokenizer = tokenizers.Tokenizer.from_file(str(_folder() / _TOKENIZER))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    ours, _ = static._tokenizer()
    texts, _ = kinds_of_prompts(1)
    for text in [*texts, "", "  a   b\n\n\tc", "日本語 テスト 🎉", "e\u0301\u0301"]:
        assert ours.encode(text) == tokenizer.encode(text, add_special_tokens=False).ids


def test_the_prompts_of_the_sentence_encoder_are_drawn_here() -> None:
    assert typical_prompts() == prompts(per_subject=4)[0]


def test_embeddings_are_wordllamas_own(tmp_path: Path) -> None:
    # In a process of its own: importing wordllama configures the root logger.
    code = (
        "import os, sys, numpy as np, wordllama\n"
        "folder = os.path.dirname(wordllama.__file__)\n"
        "model = wordllama.WordLlama.load(cache_dir=folder, disable_download=True)\n"
        "np.save(sys.argv[1], model.embed(['What is 17 * 23?', 'Who wrote Hamlet?']))\n"
    )
    # Into a file: numpy writes an array to a pipe only where standard output happens to be unbuffered.
    file = tmp_path / "theirs.npy"
    subprocess.run([sys.executable, "-c", code, str(file)], capture_output=True, check=True)
    theirs = np.load(file)
    raw = raw_means(["What is 17 * 23?", "Who wrote Hamlet?"], digit=1.0)
    np.testing.assert_allclose(raw, theirs, atol=1e-5)
    np.testing.assert_allclose(raw_means([in_english("Who wrote Hamlet?")]), theirs[1:], atol=1e-5)
