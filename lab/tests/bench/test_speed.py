"""The timing table: ratios, targets and a flat cost; the numbers themselves are not tested."""

import json

import pytest

from sigma_lab.bench.speed import Timing, measure_speed, speed_table


def test_ratios_point_the_way_their_target_does() -> None:
    half = Timing("ours", "theirs", ours=1.0, theirs=2.0, target=0.5)
    assert (half.ratio, half.met) == (0.5, True)
    slow = Timing("ours", "theirs", ours=3.0, theirs=2.0, target=1.0)
    assert (slow.ratio, slow.met) == (1.5, False)
    assert speed_table([half, slow], {1000: 2.0, 10000: 3.0}).values["flat"] == 1.5


def test_a_short_run_has_every_row() -> None:
    pytest.importorskip("pareto_bandit", reason="the extra [rivals] is not installed")
    torch = pytest.importorskip("torch", reason="the extra [center] is not installed")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # threads that wait for each other make a busy machine slow
    found = measure_speed(rounds=1, longest=1000)
    torch.set_num_threads(threads)
    assert [t["what"].split(",")[0] for t in found.values["timings"]] == [
        "state read",
        "state write",
        "SigmaMem.route(phi=…)",
        "SigmaMem.feedback",
        "from text to decision",
        "vote on 5 answers of 100 words",
    ]
    assert all(t["ours_us"] > 0 and t["theirs_us"] > 0 for t in found.values["timings"])
    json.dumps(found.values)
    assert all(len(row) == len(found.header) for row in found.rows)
    assert found.rows[0][2] == "ParetoBandit route, d = 26"
    assert "last/first" in found.remarks[0]


def test_without_the_rival_the_rest_is_still_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "pareto_bandit", None)
    found = measure_speed(rounds=1, longest=1000)
    assert found.rows == []
    assert found.values["per_event_us"]
    assert "sigma-lab[rivals]" in found.values["notes"][0]
