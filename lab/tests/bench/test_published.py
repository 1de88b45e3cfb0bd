"""The packaged copy of the paper's figures: it is the paper's, and it pools as the paper says."""

import pytest

from sigma_lab.bench.paper.inputs import figure, published

OOD = ("PIQA", "MMLU", "OpenBookQA", "SciQ", "BBH", "SuperGLUE")
PEERS = published()["peer_accuracy"]["ood"]


def pooled(parts) -> float:
    """The accuracy over all events, from (events, accuracy) of parts."""
    given = list(parts)
    return sum(n * accuracy for n, accuracy in given) / sum(n for n, _ in given)


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
