"""Labels as people have them: bools, c ∈ [−1, 1], scores in [0, 1]; 0 and 1 are never "undecided"."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sigma_mem import SigmaMem
from sigma_mem.errors import InputError


def memory() -> SigmaMem:
    return SigmaMem(["ann", "bob"], rank=2)


@pytest.mark.parametrize("zero", [0, np.int64(0), np.uint8(0)])
def test_the_integer_0_is_refused_and_the_message_says_what_to_write(zero: object) -> None:
    mem = memory()
    d = mem.route(phi=[1.0, 0.0])
    with pytest.raises(InputError, match=r"False for wrong, 0\.0 for undecided, or scores=\{'bob': 0\}"):
        mem.feedback(d.id, {"ann": 1, "bob": zero})
    assert mem.decision(d.id).labels == {}


@pytest.mark.parametrize(
    ("given_", "c"),
    [(True, 1), (False, -1), (np.bool_(True), 1), (1, 1), (-1, -1), (np.int8(1), 1), (0.0, 0), (0.25, 0.25)],
)
def test_other_labels_are_taken_as_they_are(given_: object, c: float) -> None:
    mem = memory()
    assert mem.feedback(mem.route(phi=[1.0, 0.0]).id, {"ann": given_}).labels == {"ann": c}


def test_sixty_scores_of_0_and_1_teach_who_is_wrong() -> None:
    mem = memory()
    for _ in range(60):
        mem.feedback(mem.route(phi=[1.0, 0.0]).id, scores={"ann": 1, "bob": 0})
    probs = mem.route(phi=[1.0, 0.0]).probs
    assert probs["ann"] > 0.95
    assert probs["bob"] < 0.05


@given(s=st.floats(0, 1))
def test_a_score_is_twice_a_label_less_one(s: float) -> None:
    mem = memory()
    said = mem.feedback(mem.route(phi=[1.0, 0.0]).id, {"bob": True}, scores={"ann": s}).labels
    assert said == {"bob": 1.0, "ann": 2 * s - 1}


@pytest.mark.parametrize("score", [-0.1, 1.1, float("nan"), "1", None])
def test_other_scores_are_refused(score: object) -> None:
    mem = memory()
    with pytest.raises(InputError, match="expected a number from 0"):
        mem.feedback(mem.route(phi=[1.0, 0.0]).id, scores={"ann": score})


def test_one_peer_has_a_label_or_a_score() -> None:
    mem = memory()
    d = mem.route(phi=[1.0, 0.0])
    with pytest.raises(InputError, match="expected one of them"):
        mem.feedback(d.id, {"ann": True}, scores={"ann": 1})
    with pytest.raises(InputError, match="labels are empty"):
        mem.feedback(d.id)
    with pytest.raises(InputError, match="expected a mapping"):
        mem.feedback(d.id, ["ann"])  # type: ignore[arg-type]
