"""A replay of the ledger leaves every sum as it is live."""

import numpy as np
import pytest

from learned import assert_alike
from sigma_mem import Settings, SigmaMem
from sigma_mem.ledger.fold import Fold
from sigma_mem.memory import state
from sigma_mem.memory.sums import Sum

PEERS = ["ann", "bob", "cat", "dan", "eve"]
TEXTS = ["42", "6 * 7 = 42", "it is 41", "maybe 7", "it is é", None]


def played(path, seed, events=120, settings=None, odd=0.0, usual="vote", **options):
    """A memory in which some of what happens is unusual."""
    rng = np.random.default_rng(seed)
    mem = SigmaMem(PEERS, path=path, rank=6, settings=settings or Settings(), snapshot_every=10**6, **options)
    ids = []
    for i in range(events):
        phi = rng.normal(size=6)
        phi /= np.linalg.norm(phi)
        said = {p: TEXTS[int(rng.integers(len(TEXTS)))] for p in mem.peers}
        if rng.random() < 0.03:
            said["bob"] = "a long answer " * 4
        kind = rng.random()
        ref = f"trace {i}" if kind < 0.1 else None
        if kind < 0.15:
            d = mem.route(phi=phi, ref=ref)
        elif kind < 0.15 + odd:
            d = mem.decide("what?", said, phi=phi, topic="law" if i % 2 else None)
        else:
            d = getattr(mem, usual)("what is it?", said, phi=phi, ref=ref)
        ids.append(d.id)
        if rng.random() < 0.85:
            some = {p: float(rng.choice([-1.0, 0.3, 1.0])) for p in mem.peers if rng.random() < 0.9}
            late = ids[-1] if rng.random() < 0.8 else ids[int(rng.integers(max(0, i - 30), i + 1))]
            if some:
                source = "default" if rng.random() < 1.0 - odd else f"s{rng.integers(2)}"
                mem.feedback(late, some, source=source, amend=True, wait=False)
        if odd and i == events // 2:
            mem.revoke("s1")
            mem.revoke("s1", undo=True)
    mem.store.flush()
    return mem


def same(mem):
    """Line by line and many lines at once, a replay leaves what live left."""
    with mem.journal as live:
        assert_alike(mem.journal.replayed(), live)
        together = Fold(mem.journal.ledger, mem.journal._opening)
        together.replay(mem.journal.ledger.lines())
        assert_alike(together, live)
        assert (together.seq, together.labelled) == (live.seq, live.labelled)


@pytest.mark.parametrize("keep_text", [True, False])
def test_usual_lines(tmp_path, keep_text):
    with played(tmp_path / "memory.db", 0, keep_text=keep_text) as mem:
        same(mem)


@pytest.mark.parametrize("seed", [1, 2])
def test_unusual_lines_between(tmp_path, seed):
    with played(tmp_path / "memory.db", seed, odd=0.15) as mem:
        same(mem)


SETTINGS = {
    "one horizon": Settings(gamma=0.9),
    "never forgets": Settings(gamma=1.0),
    "no agreement": Settings(agreement=False),
    "no regression": Settings(regression=False),
    "the paper's": Settings(gamma=0.99, agreement=False, regression=False),
    "labelled": Settings(decay="labelled"),
    "no features": Settings(text_features=False),
    "named source": Settings(trusted=("judge",)),
}


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_any_settings(tmp_path, settings):
    with played(tmp_path / "memory.db", 3, events=70, settings=settings) as mem:
        same(mem)


@pytest.mark.parametrize("usual", ["vote", "decide"])
def test_anchors_move_between(tmp_path, usual):
    with played(tmp_path / "memory.db", 4, events=150, settings=Settings(gamma=0.05), usual=usual) as mem:
        assert mem.state.sums.anchors.any()
        same(mem)


@pytest.mark.parametrize("keep_text", [True, False])
def test_adaptive_decisions(tmp_path, keep_text):
    with played(tmp_path / "memory.db", 7, usual="decide", keep_text=keep_text) as mem:
        same(mem)
        assert mem.state.sums["ballots.likelihood"].any()


def test_peers_come_and_go_and_events_are_forgotten(tmp_path):
    with played(tmp_path / "memory.db", 5, events=40) as mem:
        mem.forget(mem.decisions(30)[-1].id)
        same(mem)
        mem.remove_peer("eve")
        mem.add_peer("fay")
        mem.rename_peer("bob", keep=0.5)
        d = mem.vote("?", {"ann": "1", "fay": "2"}, phi=np.eye(6)[1])
        mem.feedback(d.id, {"ann": True, "fay": False})
        same(mem)


def test_a_small_pool_with_copies(tmp_path):
    rng = np.random.default_rng(6)
    with SigmaMem(PEERS[:4], path=tmp_path / "memory.db", rank=6, snapshot_every=10**6) as mem:
        for _ in range(60):
            said = f"{rng.integers(4)}"
            answers = {peer: said if peer in ("ann", "bob") else f"{rng.integers(4)}" for peer in mem.peers}
            d = mem.vote("?", answers, phi=np.eye(6)[int(rng.integers(6))])
            mem.feedback(d.id, {"ann": True, "bob": True, "cat": bool(rng.random() < 0.5)}, wait=False)
        assert any(x.body.agreement for x in mem.journal.ledger.lines() if x.kind == "decision")
        same(mem)


def test_a_snapshot_of_other_sums_is_left_alone(tmp_path, monkeypatch):
    path, declared = tmp_path / "memory.db", state.declared_sums
    with SigmaMem(PEERS, path=path, rank=6) as mem:  # `close` saves a snapshot
        mem.feedback(mem.route(phi=np.eye(6)[0]), {"ann": True})
    monkeypatch.setattr(state, "declared_sums", lambda *of: {**declared(*of), "new": Sum((2,), 0.0)})
    with SigmaMem(path=path) as mem:
        assert mem.state.sums["new"].shape == (2,)
        assert mem.events == 1
        assert mem.trust()["ann"].labels == 1
