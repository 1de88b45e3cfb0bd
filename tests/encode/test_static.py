from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from sigma_mem.encode.static import CONST, StaticEncoder, kinds

ENCODER = StaticEncoder()
SUBJECTS = {
    "law": ["The defendant was charged with burglary and moved to suppress his confession.",
            "A buyer sued the seller for breach of contract after the goods arrived damaged.",
            "Does a tenant owe rent after the landlord has evicted him without notice?"],
    "mathematics": ["Find the real roots of $x^3 - 4x + 1 = 0$.", "Let $n$ be prime. Compute $2^n \\bmod n$.",
                    "What is the area of a triangle with sides $5$, $12$ and $13$?"],
    "code": ["def g(s):\n    return s[::-1]\nprint(g('abc'))",
             "for i in range(3):\n    nums.append(i)\nprint(nums)",
             "What does sorted(d.items(), key=lambda x: x[1]) return for d = {'a': 2, 'b': 1}?"],
    "biology": ["Which organelle carries out photosynthesis in plant cells?",
                "How does DNA replication begin?",
                "What is the role of ribosomes in protein synthesis?"],
}  # fmt: skip


def test_questions_of_one_subject_share_more_than_questions_of_two() -> None:
    phi = ENCODER.encode([text for texts in SUBJECTS.values() for text in texts])
    kernel = (phi @ phi.T) ** 2
    same = np.kron(np.eye(len(SUBJECTS)), np.ones((3, 3))).astype(bool)
    within = kernel[same & ~np.eye(len(kernel), dtype=bool)].mean()
    across = kernel[~same].mean()
    assert within > 0.4
    assert across < 0.05


def test_the_last_coordinate_is_constant_and_none_is_negative() -> None:
    phi = ENCODER.encode(["Why is the sky blue?", "SELECT 1;", ""])
    np.testing.assert_allclose(phi[:, -1], CONST / np.sqrt(1.0 + CONST**2), atol=1e-15)
    assert (phi >= 0).all()
    assert (phi[:, -1] > 0.1).all()


def test_phi_is_the_formula_of_its_docstring() -> None:
    rng = np.random.default_rng(0)
    z, W, bias = rng.normal(size=(5, 3)), rng.normal(size=(3, 4)), rng.normal(size=4)
    for row, phi in zip(z, kinds(z, W, bias), strict=True):
        weight = np.exp(W.T @ (row / np.sqrt(row @ row)) + bias)
        expected = np.append(np.sqrt(weight / weight.sum()), CONST)
        np.testing.assert_allclose(phi, expected / np.sqrt(expected @ expected), atol=1e-12)


def test_numbers_do_not_make_a_question_of_law_arithmetic() -> None:
    asked = "What is the statute of limitations for breach of contract in a state that gives 4 years "
    asked += "for oral and 6 for written agreements?"
    sums, law = ENCODER.encode(["What is 17 * 23?", asked])
    assert sums @ law < 0.2  # 0.89 in version 1


@pytest.mark.parametrize(
    "text",
    [
        "¿Cuál es la capital de Francia?",
        "Was ist die Hauptstadt von Frankreich?",
        "Jakie miasto jest stolicą Francji?",
        "法国的首都是哪里?",
        "프랑스의 수도는 어디인가요?",
        "फ्रांस की राजधानी क्या है?",
    ],
)
def test_a_question_is_near_itself_in_another_language(text: str) -> None:
    there, here, far = ENCODER.encode(
        [text, "Which city is the capital of France?", "Fix this loop: while(1);"]
    )
    assert there @ here > 0.4
    assert there @ here > 3 * (there @ far)


def test_a_text_without_tokens_points_nowhere_in_particular() -> None:
    assert ENCODER.embed([""]).tolist() == [[0.0] * 80]
    np.testing.assert_allclose(kinds(np.zeros((1, 4)), np.ones((4, 2)), np.zeros(2))[0, 0], 0.7, atol=0.01)


def test_long_texts_cost_no_more_than_their_beginning() -> None:
    start = "the defendant appealed " * 500
    np.testing.assert_array_equal(ENCODER.encode([start[:8192]]), ENCODER.encode([start * 50]))


def test_encoding_touches_neither_the_network_nor_the_logger() -> None:
    code = (
        "import logging, socket, sys\n"
        "def refuse(*a, **k): raise SystemExit('network')\n"
        "socket.socket.connect = refuse\n"
        "from sigma_mem.encode.static import StaticEncoder\n"
        "StaticEncoder().encode(['Why?'])\n"
        "assert not logging.getLogger().handlers\n"
        "assert not {'torch', 'tokenizers', 'huggingface_hub'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "HF_HUB_OFFLINE": "1"})


def test_phi_of_this_version_are_these() -> None:
    # A memory holds φ of the past: whoever changes these numbers must add a version instead.
    assert ENCODER.version == "1"
    phi = ENCODER.encode(["What is 17 * 23?", "Wie viel kostet ein Zimmer in Rom?"])
    np.testing.assert_allclose(phi[0, [4, 63, 62, 19]], [0.984865, 0.124035, 0.089101, 0.036166], atol=1e-4)
    np.testing.assert_allclose(phi[1, [38, 19, 62, 31]], [0.849367, 0.297163, 0.225402, 0.22124], atol=1e-4)
