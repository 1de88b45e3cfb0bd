"""A center from a checkpoint on disk and a tiny model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs the extra [center]")

from sigma_lab.attack import counterfactual
from sigma_lab.bench.center import ROWS, open_bench_center
from sigma_lab.bench.row import TableRow
from train.tiny import tiny_stream

STREAM = tiny_stream(60, peers=3)


def judged(ratio: float, **options: Any) -> dict[str, TableRow]:
    center = open_bench_center([event.question for event in STREAM], **options)
    return center.judge(counterfactual(STREAM, ratio))


def test_a_judge_without_memory_chooses_the_same_answers_under_attack(
    tiny_steering: Path, tmp_path: Path
) -> None:
    clean, attacked = (
        judged(ratio, steering=tiny_steering, after=30, limit=8, cache=tmp_path) for ratio in (0.0, 0.9)
    )
    assert list(clean) == list(attacked) == list(ROWS)
    assert len(clean["sigma"].correct) == 8
    # An attack moves answers from seat to seat, and the choice of a judge without memory with them.
    np.testing.assert_array_equal(clean["base"].correct, attacked["base"].correct)


def test_a_bare_center_has_the_rows_it_can_have(tiny_steering: Path, tmp_path: Path) -> None:
    model = str(tiny_steering.parent / "model")
    assert set(judged(0.5, center=model, after=50, cache=tmp_path)) == {"base", "zero-M"}
