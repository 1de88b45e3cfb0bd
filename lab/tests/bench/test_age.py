"""The table of an old memory: every figure is there, and says whether its target is met."""

import json

from sigma_lab.bench import age
from sigma_lab.bench.age import Ages, Figure, grow, measure_age
from sigma_mem import SigmaMem


def test_a_target_counts_at_the_size_that_it_names() -> None:
    assert Figure("disk", "B", 999.0, 2400, 1000, "any size").met is True
    assert Figure("disk", "B", 1001.0, 2400, 1000, "any size").met is False
    assert Figure("replay", "s", 0.1, 95, 30, "10⁶ events", there=False).met is None
    assert Figure("snapshot", "MB", 1.0, None, None, "").met is None


def test_a_grown_memory_is_whole_and_its_later_events_repeat_the_played_ones(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(age, "PLAYED", 20)
    grow(tmp_path / "memory.db", 70)
    with SigmaMem(path=tmp_path / "memory.db") as mem:
        assert mem.events == 70
        assert mem.store.verify() == 141
        assert mem.labels("again-69").keys() == set(age.PEERS)
        assert mem.explain("again-69").others == 69 - 5
        assert [d.tick for d in mem.decisions(70)] == [float(70 - i) for i in range(70)]


def test_every_figure_of_an_old_memory_is_printed(monkeypatch) -> None:
    monkeypatch.setattr(age, "PLAYED", 60)
    monkeypatch.setattr(age, "MANY", 20)
    monkeypatch.setattr(age, "_alone", lambda measure, *arguments: measure(*arguments))
    steps = []
    found = measure_age(150, lambda what, done, total: steps.append(what))
    assert [f.what.split(",")[0] for f in found.figures][:6] == [
        "disk",
        "snapshot",
        "open from the snapshot",
        "replay of the ledger",
        "replay",
        "explain",
    ]
    assert all(f.found >= 0.0 for f in found.figures)
    assert dict.fromkeys(steps) == dict.fromkeys(["growing", "replay", "open", "explain", "many peers"])
    json.dumps(found.values())
    header, rows = found.grid()
    assert all(len(row) == len(header) for row in rows)
    assert "150 events" in found.remarks()[0]


def test_what_misses_its_target_says_so() -> None:
    found = Ages(1, (Figure("disk", "B", 1200.0, 2400, 1000, "any size"),), 0.0)
    assert found.grid()[1] == [["disk", "1,200 B", "", "2,400 B", "≤ 1,000 B", "NOT met"]]
