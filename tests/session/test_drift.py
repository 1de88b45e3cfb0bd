"""SigmaMem.drift: the scan over what the ledger holds now, in time, and after corrections."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from sigma_mem.memory.drift import find_changes
from sigma_mem.session import Drift, SigmaMem
from sigma_mem.session import drift as session_drift

PEERS = ("ann", "bob", "cy")
PHI = np.array([1.0, 0.0])


def labels(n: int, changes: int, seed: int = 0) -> list[dict[str, bool]]:
    """Everybody is right 8 times in 10; ann 2 times in 10 from some event on."""
    draws = np.random.default_rng(seed).random((n, 3))
    return [
        {p: bool(x < (0.2 if p == "ann" and t >= changes else 0.8)) for p, x in zip(PEERS, row, strict=True)}
        for t, row in enumerate(draws)
    ]


def filled(given: list[dict[str, bool]], path: Path | None = None) -> tuple[SigmaMem, list[str]]:
    mem = SigmaMem(PEERS, path, rank=2, clock=iter(np.arange(1e6)).__next__)
    ids = []
    for said in given:
        ids.append(mem.route(phi=PHI).id)
        mem.feedback(ids[-1], said)
    return mem, ids


def test_names_who_changed_since_when_and_how_sure() -> None:
    said = labels(200, 140)
    mem, ids = filled(said)
    (found,) = mem.drift()
    assert found.peer == "ann"
    assert abs(ids.index(found.since) - 140) <= 10
    assert found.labels == 200 - ids.index(found.since)
    assert found.tick == ids.index(found.since) + 1
    assert found.time == mem.decision(found.since).time
    assert found.confidence > 0.99
    right = [each["ann"] for each in said]
    assert found.now == pytest.approx(np.mean(right[-min(found.labels, 50) :]))  # its newest ones
    assert found.was == pytest.approx(np.mean(right[: -found.labels]), abs=0.02)  # the older ones count less
    assert str(found).count("\n") == repr(found).count("\n") == 0
    assert str(found).startswith(f"ann: right {found.was:.0%} before and {found.now:.0%} since 1970-01-01")


def test_is_quiet_where_nothing_changed_and_where_nothing_is_known() -> None:
    mem, _ = filled(labels(200, 999))
    assert mem.drift() == []
    assert SigmaMem(PEERS, rank=2).drift() == []
    mem, _ = filled([{"bob": True}] * 5)
    assert mem.drift() == []


def test_is_the_scan_over_the_labels_that_stand_now() -> None:
    said = labels(160, 100)
    mem, ids = filled(said)
    for id, each in zip(ids[100:], said[100:], strict=True):  # all that spoke against ann was wrong
        mem.feedback(id, {"ann": each["bob"]}, amend=True)
    assert mem.drift() == []
    mem, ids = filled(labels(160, 999))
    for id in ids[100:]:
        mem.feedback(id, {"ann": False, "bob": True, "cy": True}, source="rival")
        mem.feedback(id, {"ann": False}, amend=True)
    assert [found.peer for found in mem.drift()][:1] == ["ann"]
    mem.revoke("rival")
    c = np.array([[mem.decision(id).labels[peer] for peer in PEERS] for id in ids])
    changes = find_changes(np.tile(PHI, (160, 1)), c)
    sure = {
        p: x.confidence for p, x in zip(PEERS, changes, strict=True) if x is not None and x.confidence > 0.9
    }
    assert {found.peer: found.confidence for found in mem.drift()} == pytest.approx(sure)


def test_reads_the_end_of_the_ledger_only(monkeypatch: pytest.MonkeyPatch) -> None:
    mem, ids = filled(labels(300, 260))
    whole = mem.drift()
    monkeypatch.setattr(session_drift, "WINDOW", 120)
    monkeypatch.setattr(session_drift, "_PAGE", 16)
    (found,) = mem.drift()
    assert found.since == whole[0].since
    assert ids.index(found.since) > 180
    read: list[int] = []
    records = mem.store.records
    monkeypatch.setattr(
        mem.store, "records", lambda n, after, until: read.append(after) or records(n, after, until)
    )
    mem.drift()
    assert min(read) > 0  # 120 labelled events are 240 lines; the first ones are not read


def test_late_labels_count_where_the_event_stands() -> None:
    said = labels(160, 110)
    on_time, _ = filled(said)
    late = SigmaMem(PEERS, rank=2, clock=iter(np.arange(1e6)).__next__)
    ids = [late.route(phi=PHI).id for _ in said]
    for id, each in reversed(list(zip(ids, said, strict=True))):
        late.feedback(id, each)
    (one,), (other,) = on_time.drift(), late.drift()
    assert facts(one) == pytest.approx(facts(other))


def facts(found: Drift) -> Mapping[str, float]:
    return {"was": found.was, "now": found.now, "tick": found.tick, "sure": found.confidence}
