"""The confidence experiment: what a session claims, scored as it was claimed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from madeup import made_up
from partial import with_absent_peers, without_answers

from sigma_lab.bench.experiments.confidence import confidence_table
from sigma_lab.bench.league import DEFAULT
from sigma_lab.bench.table import write_report
from sigma_mem.session import SigmaMem


def test_claims_are_those_of_a_session() -> None:
    stream, phis = made_up(80)
    table = confidence_table(stream, phis)
    found, after = table.claims["vote"], table.after
    with SigmaMem(stream.peers, rank=phis.shape[1], settings=DEFAULT.settings, keep_text=False) as mem:
        for place, (event, phi) in enumerate(zip(stream, phis, strict=True)):
            decision = mem.vote(event.question, event.answers, phi=phi, min_confidence=0.9)
            if place >= after:
                assert found.forecast.confidence[place - after] == decision.confidence
                assert found.answered is not None
                assert found.answered[place - after] == (decision.peer is not None)
                peer = decision.peer or decision.details["abstained"]["peer"]
                assert found.forecast.right[place - after] == (event.correct[peer] > 0)
            mem.feedback(decision.id, event.correct)
    assert len(found.forecast) == 40


def test_the_claims_of_a_vote_can_be_believed() -> None:
    forecast = confidence_table(*made_up(400, n_peers=6)).claims["vote"].forecast
    assert forecast.calibration_error <= forecast.perfect_error() + 0.01


def test_fewer_labels_leave_other_claims_and_all_are_scored() -> None:
    stream, phis = made_up(60)
    some, full = (confidence_table(stream, phis, share=share) for share in (0.2, 1.0))
    assert len(some.claims["decide"].forecast) == len(full.claims["decide"].forecast) == 30
    few, all_ = (table.claims["decide"].forecast.confidence for table in (some, full))
    assert not np.array_equal(few, all_)


@pytest.mark.parametrize("bare", [False, True])
def test_it_is_json_and_has_diagrams_also_where_peers_are_absent(tmp_path: Path, bare: bool) -> None:
    stream, phis = made_up(80)
    partly = with_absent_peers(without_answers(stream) if bare else stream)
    table = confidence_table(partly, phis)
    assert ("vote" in table.claims) is not bare
    json.dumps(table.values(), allow_nan=False)
    files = {file.name for file in write_report(table, tmp_path)}
    assert {"report.md", "reliability-route.png"} <= files
    assert ("reliability-decide.png" in files) is not bare  # nothing can be read, so nothing is claimed
