"""The table of an old memory: every figure is there, and says whether its target is met."""

import json

from sigma_lab.bench import age
from sigma_lab.bench.age import AgeFigure, age_table, grow, measure_age
from sigma_mem import SigmaMem


def test_a_target_counts_at_the_size_that_it_names() -> None:
    assert AgeFigure("disk", "B", 999.0, 1000).met(1) is True
    assert AgeFigure("disk", "B", 1001.0, 1000).met(1) is False
    assert AgeFigure("replay", "s", 0.1, 30, 1_000_000).met(999_999) is None
    assert AgeFigure("snapshot", "MB", 1.0).met(1) is None
    found = age_table(1, [AgeFigure("disk", "B", 1200.0, 1000)], 0.0)
    assert found.rows == [["disk", "1,200 B", "", "≤ 1,000 B", "NOT met"]]


def test_a_grown_memory_is_whole_and_its_later_events_repeat_the_played_ones(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(age, "PLAYED", 20)
    grow(tmp_path / "memory.db", 70)
    with SigmaMem(path=tmp_path / "memory.db") as mem:
        assert mem.events == 70
        assert mem.store.verify() == 141
        assert mem.decision("again-69").labels.keys() == set(age.PEERS)
        assert mem.explain("again-69").others == 69 - 5
        assert [d.tick for d in mem.decisions(70)] == [float(70 - i) for i in range(70)]


def test_every_figure_of_an_old_memory_is_printed(monkeypatch) -> None:
    monkeypatch.setattr(age, "PLAYED", 60)
    monkeypatch.setattr(age, "MANY", 20)
    monkeypatch.setattr(age, "_alone", lambda measure, *arguments: measure(*arguments))
    steps = []
    found = measure_age(150, lambda what, done, total: steps.append(what))
    figures = found.values["figures"]
    assert [f["what"].split(",")[0] for f in figures][:4] == [
        "disk",
        "snapshot",
        "open from the snapshot",
        "replay of the ledger",
    ]
    assert all(f["found"] >= 0.0 for f in figures)
    assert dict.fromkeys(steps) == dict.fromkeys(["growing", "replay", "open", "explain", "many peers"])
    json.dumps(found.values)
    assert all(len(row) == len(found.header) for row in found.rows)
    assert "150 events" in found.remarks[0]
