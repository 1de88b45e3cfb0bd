"""A naive memory: a list of events, and M, N, G and wrong pairs computed from it by the definition.

Operations are tuples of a name and small integers, so that hypothesis can shrink lists of them; `apply` does
one to a real memory and `NaiveMemory.apply` the same to the list.
"""

from __future__ import annotations

import linecache
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import sigma_mem
from learned import assert_alike
from sigma_mem import Settings, SigmaMem
from sigma_mem.memory.kernel import matrices

RANK = 3
FIRST = ("p0", "p1", "p2")
SOURCES = ("default", "other")
SETTINGS = Settings(gamma=0.9, gamma_g=0.8, eta_g=0.5, trusted=SOURCES)
START = 1_700_000_000.0
KEEPS = (0.0, 0.2, 0.5, 1.0)
LABELS = (True, False, 0.5, -0.25)
NUMBERS = {True: 1.0, False: -1.0, 0.5: 0.5, -0.25: -0.25}
KINDS = (
    "decide", "decide", "route", "label", "label", "label", "amend", "forget", "reset", "replace", "rename",
    "remove", "add", "return", "revoke", "unrevoke", "forget_before", "reopen",
)  # fmt: skip


def drawn(seed: int, n: int = 40) -> list[tuple]:
    """Operations drawn at random; without "reopen"."""
    rng = np.random.default_rng(seed)
    return [(KINDS[rng.integers(len(KINDS) - 1)], *rng.integers(0, 32, 3).tolist()) for _ in range(n)]


def direction(number: int) -> np.ndarray:
    phi = np.random.default_rng(number).normal(size=RANK)
    return (phi / np.linalg.norm(phi)).astype(np.float32).astype(np.float64)  # as a ledger keeps it


@dataclass(eq=False)
class NaivePeer:
    """One peer, whatever it is called."""

    name: str
    here: bool = True


@dataclass(eq=False)
class NaiveEvent:
    """One event: its answers, its labels by source, and what share of it each peer keeps."""

    id: str
    phi: np.ndarray
    time: float
    answers: dict[NaivePeer, str] = field(default_factory=dict)
    said: dict[str, dict[NaivePeer, float]] = field(default_factory=dict)
    kept: dict[NaivePeer, float] = field(default_factory=dict)
    forgotten: bool = False

    def labels(self, revoked: set[str]) -> dict[NaivePeer, float]:
        """The mean over the sources that are heard."""
        if self.forgotten:
            return {}
        by_peer: dict[NaivePeer, list[float]] = {}
        for source, labels in self.said.items():
            if source not in revoked:
                for peer, c in labels.items():
                    by_peer.setdefault(peer, []).append(c)
        return {peer: sum(every) / len(every) for peer, every in by_peer.items()}


class NaiveMemory:
    """Events in order, and who is in the pool."""

    def __init__(self, peers=FIRST) -> None:
        self.peers = [NaivePeer(name) for name in peers]  # in the order of the pool; then those who left
        self.events: list[NaiveEvent] = []
        self.revoked: set[str] = set()
        self.used = set(peers)

    def pool(self) -> list[NaivePeer]:
        return [peer for peer in self.peers if peer.here]

    def open_events(self) -> list[NaiveEvent]:
        return [event for event in self.events if not event.forgotten]

    def scale(self, peer: NaivePeer, keep: float) -> None:
        for event in self.events:
            event.kept[peer] = keep * event.kept.get(peer, 1.0)

    def arrays(self) -> dict[str, np.ndarray]:
        """M, N, G and the sums behind K, by the definition."""
        s, pool, now = SETTINGS, self.pool(), len(self.events)
        M, N = np.zeros((2, len(pool), RANK, RANK))
        G, same, pairs = np.zeros((len(pool), len(pool))), np.zeros((RANK, RANK)), np.zeros((RANK, RANK))
        for place, event in enumerate(self.events):
            c = event.labels(self.revoked)
            if not c:
                continue
            age = now - 1 - place
            square = s.gamma**age * np.outer(event.phi, event.phi)
            mean = sum(c.values()) / len(c)
            q = np.zeros(len(pool))
            for i, peer in enumerate(pool):
                if peer in c:
                    share = event.kept.get(peer, 1.0)
                    M[i] += s.step * share * c[peer] * square
                    N[i] += s.step * share * square
                    q[i] = share * (c[peer] - mean) if len(c) > 1 else 0.0
            G += s.eta_g * s.gamma_g**age * np.outer(q, q)
            wrong = [event.answers[peer] for peer in c if c[peer] < 0 and peer in event.answers]
            if len(wrong) > 1:
                equal = sum(wrong.count(answer) - 1 for answer in wrong) / 2
                every = len(wrong) * (len(wrong) - 1) / 2
                same += equal / (len(wrong) - 1) * square
                pairs += every / (len(wrong) - 1) * square
        np.fill_diagonal(G, 1.0)
        return {"M": M, "N": N, "G": G, "same": same, "pairs": pairs}


def arrays_of(mem: SigmaMem) -> dict[str, np.ndarray]:
    """The same of a real memory."""
    state = mem.state
    decayed = state.sums.factors("all_pairs", state.now)
    pairs = matrices(state.sums, "pairs", slice(None), state.rank) * decayed[:, None, None]
    return {"M": state.M, "N": state.N, "G": state.G, "same": pairs[0], "pairs": pairs[1]}


def assert_equal(mem: SigmaMem, naive: NaiveMemory) -> None:
    """What was learned is what the definition says, the ledger gives the same, and ids are all there."""
    assert mem.peers == tuple(peer.name for peer in naive.pool())
    assert mem.events == len(naive.events)
    for name, array in naive.arrays().items():
        np.testing.assert_allclose(arrays_of(mem)[name], array, atol=1e-9, err_msg=name)
    assert_alike(mem, mem.journal.replayed())
    assert [d.id for d in mem.decisions()] == [event.id for event in naive.open_events()][::-1]
    for event in naive.open_events():
        expected = {peer.name: c for peer, c in event.labels(naive.revoked).items()}
        with mem.journal as fold:  # a decision names peers as they were called then
            assert fold.event_of(event.id)[1].labels().c == expected


def step(
    mem: SigmaMem, naive: NaiveMemory, operation: tuple, clock: list[float], id: str | None = None
) -> None:
    """Do one operation to both; one that makes no sense here does nothing."""
    kind, a, b, c = operation
    clock[0] += 1.0
    pool, events = naive.pool(), naive.open_events()
    if kind in ("decide", "route"):
        phi = direction(a)
        event = NaiveEvent("", phi, clock[0])
        if kind == "decide":
            event.answers = {peer: str((b + i * c) % 3) for i, peer in enumerate(pool)}
            answers = {peer.name: text for peer, text in event.answers.items()}
            event.id = mem.vote(f"task {a}", answers, phi=phi).id if mem else id
        else:
            event.id = mem.route(f"task {a}", phi=phi).id if mem else id
        naive.events.append(event)
    elif kind in ("label", "amend") and events:
        event, source = events[a % len(events)], SOURCES[b % 2]
        if source in naive.revoked:
            return
        said = {peer: LABELS[(c + i) % 4] for i, peer in enumerate(naive.peers) if (b >> i) & 1 or not i}
        before = event.said.get(source, {})
        if kind == "label":
            said = {peer: value for peer, value in said.items() if peer not in before}
        if not said:
            return
        if mem:
            names = {peer.name: value for peer, value in said.items()}
            mem.feedback(event.id, names, source=source, amend=kind == "amend")
        numbers = {
            peer: {True: 1.0, False: -1.0}.get(x, x) if isinstance(x, bool) else x for peer, x in said.items()
        }
        event.said[source] = {**before, **numbers}
    elif kind == "forget" and events:
        if mem:
            assert mem.forget(events[a % len(events)].id) == 1
        events[a % len(events)].forgotten = True
    elif kind == "forget_before" and events:
        moment = events[min(a % 3, len(events) - 1)].time
        if mem:
            mem.forget(before=moment)
        for event in events:
            event.forgotten |= event.time < moment
    elif kind == "reset" and KEEPS[b % 4] < 1.0:
        peer, keep = pool[a % len(pool)], KEEPS[b % 4]
        if mem:
            mem.rename_peer(peer.name, keep=keep)
        naive.scale(peer, keep)
    elif kind in ("replace", "rename"):
        peer, keep = pool[a % len(pool)], KEEPS[b % 4] if kind == "replace" else 1.0
        name = f"n{len(naive.used)}"
        if mem and kind == "replace":
            mem.rename_peer(peer.name, name, keep=keep)
        elif mem:
            mem.rename_peer(peer.name, name)
        peer.name = name
        naive.used.add(name)
        naive.scale(peer, keep)
    elif kind == "remove" and len(pool) > 1:
        peer = pool[a % len(pool)]
        if mem:
            mem.remove_peer(peer.name)
        peer.here = False
    elif kind == "add" and len(pool) < 5:
        name = f"n{len(naive.used)}"
        if mem:
            mem.add_peer(name)
        naive.used.add(name)
        naive.peers.append(NaivePeer(name))
    elif kind == "return" and len(pool) < 5 and (gone := [peer for peer in naive.peers if not peer.here]):
        peer = gone[a % len(gone)]
        if mem:
            mem.add_peer(peer.name, returning=True)
        peer.here = True
        naive.scale(peer, 0.0)
        naive.peers.remove(peer)
        naive.peers.append(peer)
    elif kind in ("revoke", "unrevoke"):
        source = SOURCES[a % 2]
        if mem:
            mem.revoke(source, undo=kind == "unrevoke")
        (naive.revoked.add if kind == "revoke" else naive.revoked.discard)(source)


PACKAGE = str(Path(sigma_mem.__file__).parent)


class Interrupted(Exception):
    """What a signal handler raises."""


@contextmanager
def interrupt_after(lines: int | None) -> Iterator[None]:
    """Raise Interrupted before one line of the package's code in this thread, after so many others; or never.

    A signal handler runs between two steps of the main thread: this chooses between which two. Not before
    ``try`` and ``with``, whose line counts again when its block ends: no signal is handled there.
    """
    left = lines

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal left
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        if event == "line" and left is not None and not _begins_block(frame):
            left -= 1
            if left < 0:
                left = None
                raise Interrupted
        return trace

    before = sys.gettrace()
    sys.settrace(None if lines is None else trace)
    try:
        yield
    finally:
        sys.settrace(before)


def _begins_block(frame: FrameType) -> bool:
    line = linecache.getline(frame.f_code.co_filename, frame.f_lineno)
    return line.lstrip().startswith(("with ", "try:"))


def lines_of(mem: SigmaMem) -> list[str]:
    """Every line of the ledger: its kind, and the id that it has."""
    return [f"{record.kind} {record.id}" for record in mem.store.records("default")]


def interrupted_step(
    mem: SigmaMem, naive: NaiveMemory, operation: tuple, clock: list[float], after: int | None
) -> bool:
    """Do one operation, interrupted after some lines of code; return whether it was done.

    It was where the ledger has its line: then it counts as if nobody had been interrupted.
    """
    before, time = lines_of(mem) if after is not None else [], clock[0]
    try:
        with interrupt_after(after):
            step(mem, naive, operation, clock)
        return True
    except Interrupted:
        new = lines_of(mem)[len(before) :]
        assert len(new) <= 1, new
        if new:
            clock[0] = time
            step(None, naive, operation, clock, new[0].removeprefix("decision "))
        return bool(new)
