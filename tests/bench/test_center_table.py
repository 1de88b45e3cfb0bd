"""A whole table from a checkpoint on disk and a tiny model, here and over two Ray workers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs the extra [center]")

from sigma_mem.bench.center_cf import table_values
from sigma_mem.bench.center_rows import ROWS
from sigma_mem.bench.center_table import center_table
from train.tiny import tiny_stream

STREAM = tiny_stream(60, peers=3)


def test_the_table_has_every_row_at_every_ratio(tiny_steering: Path, tmp_path: Path) -> None:
    table = center_table(STREAM, steering=tiny_steering, ratios=(0.0, 0.9), after=30, limit=8, cache=tmp_path)
    values = table_values(table)
    assert values["events"] == 8
    for ratio in ("0", "0.9"):
        assert set(values["ratios"][ratio]) == set(ROWS)
    # An attack moves answers from seat to seat, and the choice of a judge without memory with them.
    np.testing.assert_array_equal(table[0.0]["base"].correct, table[0.9]["base"].correct)


def test_a_bare_center_has_the_rows_it_can_have(tiny_steering: Path, tmp_path: Path) -> None:
    model = str(tiny_steering.parent / "model")
    table = center_table(STREAM, center=model, ratios=(0.5,), after=50, cache=tmp_path)
    assert set(table[0.5]) == {"base", "zero-M"}
    assert "vs_sigma" not in table_values(table)["ratios"]["0.5"]["base"]


@pytest.mark.filterwarnings("ignore")
def test_two_ray_workers_give_the_same_table(tiny_steering: Path, tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="needs the extra [ray]")
    options = {"steering": tiny_steering, "ratios": (0.5,), "after": 40, "cache": tmp_path}
    here = center_table(STREAM, **options)  # type: ignore[arg-type]
    spread = center_table(STREAM, **options, ray="local", workers=2)  # type: ignore[arg-type]
    for name in ROWS:
        np.testing.assert_array_equal(spread[0.5][name].chosen, here[0.5][name].chosen)
