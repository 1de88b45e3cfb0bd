"""Explanations read as much of the ledger as matters, and say the same as if they had read all of it."""

import tracemalloc
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from sigma_mem import Settings, SigmaMem
from sigma_mem.ledger.records import pages_back
from sigma_mem.session import sigma
from sigma_mem.session.explain import explain

PEERS = ["ann", "bob", "cat"]


def taught(events: int, settings: Settings, **options) -> SigmaMem:
    mem = SigmaMem(PEERS, rank=4, settings=settings, keep_text=False, **options)
    rng = np.random.default_rng(0)
    ids = []
    for i in range(events):
        phi = rng.normal(size=4)
        said = {"ann": "1", "bob": f"{i % 3}", "cat": None if i % 5 else "2"}
        d = mem.vote("?", said, phi=phi / np.linalg.norm(phi))
        ids.append(d.id)
        late = ids[int(rng.integers(max(0, i - 40), i + 1))]
        some = {peer: bool(rng.random() < 0.6) for peer in PEERS if rng.random() < 0.7}
        if some:
            mem.feedback(late, some, source=f"s{i % 3}", amend=True, wait=False)
    return mem


def lines_read(mem: SigmaMem, monkeypatch) -> list[int]:
    read, records = [], mem.store.records
    monkeypatch.setattr(
        mem.store, "records", lambda *a, **k: read.extend(found := list(records(*a, **k))) or iter(found)
    )
    return read


@pytest.mark.parametrize("decay", ["event", "labelled"])
@pytest.mark.parametrize("peer", PEERS)
def test_reading_part_of_the_ledger_says_what_reading_all_of_it_does(decay, peer, monkeypatch):
    monkeypatch.setattr(sigma, "pages_back", partial(pages_back, size=32))
    mem = taught(120, Settings(gamma=0.97, decay=decay))
    mem.revoke("s1")
    mem.rename_peer("bob", "eve")
    mem.rename_peer("cat", keep=0.3)
    name = {"bob": "eve"}.get(peer, peer)
    d = mem.route(phi=np.eye(4)[0])
    mem.revoke("s1", undo=True)
    part = mem.explain(d.id, peer=name, top=4)
    with mem.journal as fold:
        line, pool = fold.line(d.id), fold.pool
    pages = pages_back(mem.journal.ledger.lines, line.seq - 1)
    whole = explain(line, pages, mem.settings, name, 1000, pool)
    assert part.contributions == whole.contributions[:4]
    assert part.others == len(whole.contributions) - 4
    assert whole.others == 0
    assert whole.rest == pytest.approx(0.0, abs=1e-12)
    assert part.rest == pytest.approx(sum(term.share for term in whole.contributions[4:]), abs=1e-12)
    assert part.basis.labels == len(whole.contributions)
    assert replace(part, contributions=(), others=0, rest=0.0) == replace(whole, contributions=(), rest=0.0)


def test_only_as_many_lines_are_read_as_can_matter(monkeypatch):
    monkeypatch.setattr(sigma, "pages_back", partial(pages_back, size=64))
    read = {}
    for events in (150, 600):
        mem = taught(events, Settings(gamma=0.95))
        lines = lines_read(mem, monkeypatch)
        mem.explain(mem.route(phi=np.eye(4)[0]).id)
        read[events] = len(lines)
    assert read[600] <= 512
    assert read[600] <= 1.5 * read[150]


def test_memory_does_not_grow_with_the_ledger(tmp_path, monkeypatch):
    monkeypatch.setattr(sigma, "pages_back", partial(pages_back, size=64))
    most = {}
    for events in (100, 500):
        with taught(events, Settings(gamma=1.0), path=tmp_path / f"{events}.db") as mem:
            mem.store.flush()
            d = mem.route(phi=np.eye(4)[0])
            tracemalloc.start()
            mem.explain(d.id)
            most[events] = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
    assert most[500] < 1.5 * most[100] + 5e5
    assert most[500] < 4e6


def test_no_events_can_be_listed():
    mem = taught(30, Settings(gamma=0.97))
    found = mem.explain(mem.route(phi=np.eye(4)[0]).id, top=0)
    assert found.contributions == ()
    assert found.rest == found.score
