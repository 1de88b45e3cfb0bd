"""The packaged copy of the paper's figures: it is the paper's, and it pools as the paper says."""

from __future__ import annotations

from pathlib import Path

import pytest
from published_tex import OOD, read_tables

from sigma_lab.bench.paper.published import figure, paper_center, published

TEX = Path(__file__).parents[4] / "shared" / "paper" / "sigma-mem.tex"
PEERS = published()["peer_accuracy"]["ood"]


def pooled(parts) -> float:
    """The accuracy over all events, from (events, accuracy) of parts."""
    given = list(parts)
    return sum(n * accuracy for n, accuracy in given) / sum(n for n, _ in given)


def test_every_figure_is_that_of_the_latex_source() -> None:
    if not TEX.is_file():
        pytest.skip(f"no {TEX}: the paper's source is not part of the package")
    said = read_tables(TEX.read_text(encoding="utf-8"))
    ours = published()
    assert ours["cf"] == said["cf-route"]
    assert {key: ours[key] for key in ("peers", "readouts", "mechanisms", "peer_accuracy")} == {
        key: said[key] for key in ("peers", "readouts", "mechanisms", "peer_accuracy")
    }
    # Tables 1 and 3 print a part of the two appendices.
    for center, rows in said["cf"].items():
        assert {row: ours["cf"][center][row] for row in rows} == rows
    for center, datasets in said["ood"].items():
        for dataset, rows in datasets.items():
            assert {row: ours["readouts"][center][dataset][row] for row in rows} == rows


def test_overall_is_pooled_by_events_and_no_mean_over_benchmarks() -> None:
    parts = list(PEERS.values())
    by_peer = [pooled((part["n"], part["accuracy"][i]) for part in parts) for i in range(3)]
    oracle = pooled((part["n"], max(part["accuracy"])) for part in parts)
    assert round(max(by_peer), 2) == figure("mechanisms", "best-fixed") == 57.52
    assert round(oracle, 2) == figure("mechanisms", "oracle") == 60.79
    macro = sum(figure("readouts", "Qwen3.5-9B", name, "sigma") for name in OOD) / 6
    assert round(macro, 1) == 71.8
    assert figure("mechanisms", "Qwen3.5-9B", "sigma") == 61.31


@pytest.mark.parametrize("center", list(published()["readouts"]))
@pytest.mark.parametrize("row", ["base", "sigma", "majority", "m-route", "m-vote"])
def test_the_overall_line_of_every_appendix_table_is_pooled(center: str, row: str) -> None:
    rows = published()["readouts"][center]
    found = pooled((rows[name]["n"], rows[name][row]) for name in OOD)
    assert found == pytest.approx(rows["Overall"][row], abs=0.015)  # the cells are rounded


def test_names_of_centers() -> None:
    assert paper_center("Qwen/Qwen3-8B") == "Qwen3-8B"
    assert paper_center("smollm2") is None
    assert figure("cf", "Qwen3-8B", "nothing") is None
