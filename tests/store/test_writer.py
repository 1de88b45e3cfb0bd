"""The queue: batches, back-pressure, and what happens when a batch cannot be written."""

import threading
import time
from contextlib import suppress

import pytest

from invariants.keeping import Interrupted, interrupt_after
from sigma_mem.errors import StoreError
from sigma_mem.store import InMemoryStore
from sigma_mem.store.base import Record
from sigma_mem.store.rows import Space
from sigma_mem.store.writer import Writer


class Gate:
    """A small stand-in of the tables: lists behind a gate that the test opens, shuts and breaks."""

    def __init__(self):
        self.rows, self.commits = {}, []
        self.open = threading.Event()
        self.entered = threading.Semaphore(0)
        self.broken = {}  # errors by namespace
        self.ended = 0

    def write(self, taken):
        self.entered.release()
        assert self.open.wait(10)
        for tail, _ in taken:
            if tail.namespace in self.broken:
                raise self.broken[tail.namespace]
        self.commits.append({tail.namespace: len(batch.records) for tail, batch in taken})
        for tail, batch in taken:
            self.rows.setdefault(tail.namespace, []).extend(batch.records.values())
        return [Space(1, tail.namespace, len(self.rows[tail.namespace])) for tail, _ in taken]

    def end(self):
        self.ended += 1

    def sizes(self):
        return [sum(commit.values()) for commit in self.commits]


@pytest.fixture
def gate():
    return Gate()


@pytest.fixture
def writer(gate):
    made = Writer(gate.write, gate.end)
    made.new_tail("ns").capacity = 4
    made.start()
    yield made
    gate.open.set()
    made.stop()


def tail_of(writer, namespace):
    known = [tail for tail in writer.tails if tail.namespace == namespace]
    return known[0] if known else writer.new_tail(namespace)


def append(writer, id, namespace="ns"):
    tail = tail_of(writer, namespace)
    if tail.space is None:  # as a store does: nothing was written yet, or a commit failed
        tail.space = Space(1, namespace, 0)
    return tail.append([Record("decision", id, id, b"")], None, None, lambda *_: False)


def test_what_gathers_during_a_commit_is_written_together(writer, gate):
    append(writer, "0")
    gate.entered.acquire()
    tickets = [append(writer, str(n))[1] for n in (1, 2, 3)]
    tickets.append(append(writer, "1", "other")[1])
    gate.open.set()
    for ticket in tickets:
        ticket.wait()
    assert gate.commits == [{"ns": 1}, {"ns": 3, "other": 1}]
    assert [r.seq for r in gate.rows["ns"]] == [1, 2, 3, 4]


def test_append_returns_before_the_commit_and_wait_after_it(writer, gate):
    seq, ticket = append(writer, "0")
    assert seq == 1
    waited = threading.Thread(target=ticket.wait)
    waited.start()
    waited.join(0.1)
    assert waited.is_alive()
    gate.open.set()
    waited.join(10)
    assert not waited.is_alive()


@pytest.mark.parametrize("error", [None, StoreError("disk full")])
def test_append_waits_while_the_queue_is_full(writer, gate, error):
    if error is not None:
        gate.broken["ns"] = error
    append(writer, "0")
    gate.entered.acquire()
    for n in range(1, 5):
        append(writer, str(n))
    results = []
    blocked = threading.Thread(target=lambda: results.append(append(writer, "5")[0]))
    blocked.start()
    blocked.join(0.1)
    assert blocked.is_alive()
    gate.open.set()
    blocked.join(10)
    assert results == ([1] if error else [6])


def test_a_failed_batch_drops_itself_and_everything_behind_it_only(writer, gate):
    gate.open.set()
    append(writer, "kept")[1].wait()
    gate.entered.acquire()
    gate.open.clear()
    gate.broken["ns"] = StoreError("disk full")
    tail = tail_of(writer, "ns")
    (seq_a, a), _ = append(writer, "a"), gate.entered.acquire()
    seq_b, b = append(writer, "b")
    assert (seq_a, seq_b) == (2, 3)
    assert tail.find("decision", "a").seq == 2
    gate.open.set()
    for ticket in (a, b, a):
        with pytest.raises(StoreError, match="disk full"):
            ticket.wait()
    assert (tail.find("decision", "a"), tail.of_event("b"), tail.epoch) == (None, [], 1)
    assert tail.space is None  # a commit can fail after it was done: the ledger is asked
    tail.space = Space(1, "ns", 1)
    gate.broken.clear()
    seq, again = append(writer, "a")
    again.wait()
    assert seq == 2
    assert [(r.id, r.seq) for r in gate.rows["ns"]] == [("kept", 1), ("a", 2)]


def test_flush_raises_what_the_batch_met_and_drain_does_not(writer, gate):
    gate.broken["ns"] = StoreError("disk full")
    append(writer, "a")
    gate.entered.acquire()
    append(writer, "b")
    threading.Timer(0.05, gate.open.set).start()
    with pytest.raises(StoreError, match="disk full"):
        tail_of(writer, "ns").flush()
    append(writer, "c")
    tail_of(writer, "ns").drain()
    assert tail_of(writer, "ns").epoch == 2


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_writer_that_dies_leaves_nobody_waiting(writer, gate):
    gate.broken["ns"] = ZeroDivisionError("a bug")
    gate.open.set()
    _, ticket = append(writer, "a")
    with pytest.raises(StoreError, match="the writer has ended"):
        ticket.wait()
    writer.stop()
    for namespace in ("ns", "new"):
        with pytest.raises(StoreError, match="closed"):
            append(writer, "b", namespace)
    assert gate.ended == 1


def test_stop_writes_what_is_queued_then_ends_once(writer, gate):
    append(writer, "a")
    gate.open.set()
    append(writer, "b")
    writer.stop()
    writer.stop()
    assert len(gate.rows["ns"]) == 2
    assert gate.ended == 1


def test_the_collector_may_stop_it_in_its_own_thread():
    """A store that is garbage can be collected while its writer runs: no join with itself."""
    ended = threading.Event()
    writer = Writer(lambda taken: [writer.stop() and Space(1, "ns", 1) for _ in taken], ended.set)
    writer.start()
    append(writer, "a")[1].wait()
    assert ended.wait(10)


def test_what_nobody_waits_for_is_written_with_what_comes_meanwhile(writer, gate):
    gate.open.set()
    for n in range(3):
        append(writer, str(n))
    while not gate.commits:
        time.sleep(0.005)
    assert gate.sizes() == [3]


def test_who_waits_does_not_linger(writer, gate, monkeypatch):
    monkeypatch.setattr("sigma_mem.store.writer._LINGER_SECONDS", 60.0)
    gate.open.set()
    append(writer, "0")
    append(writer, "1")[1].wait()
    append(writer, "2")
    tail_of(writer, "ns").flush()
    assert gate.sizes() == [2, 1]


def test_a_listener_is_called_after_what_was_queued_before_it_an_urgent_one_first(writer, gate):
    heard = []
    tail = tail_of(writer, "ns")
    assert tail.listen(lambda *_: heard.append("at once")) is None
    append(writer, "0")
    late, urgent = (
        lambda *told, name=name: heard.append((name, len(gate.rows["ns"]), *told)) for name in "lu"
    )
    batch = tail.listen(late)
    assert tail.listen(urgent, urgent=True) is tail.listen(urgent, urgent=True) is batch
    gate.open.set()
    append(writer, "1")[1].wait()
    append(writer, "2")[1].wait()
    assert heard == [("u", 2, batch, None), ("l", 2, batch, None)]


def returns_in_time(wait):
    """Whether a call in a thread of its own returns."""
    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    thread.join(5)
    return not thread.is_alive()


@pytest.mark.parametrize("lines", range(12))
def test_an_interrupt_at_any_line_of_a_wait_keeps_nobody_else_waiting(writer, gate, lines):
    gate.open.set()
    in_process = InMemoryStore().append("ns", [Record("decision", "a", "a", b"")])[1]
    for ticket in (append(writer, "a")[1], in_process):

        def interrupted(ticket=ticket):
            with suppress(Interrupted), interrupt_after(lines):
                ticket.wait()

        assert returns_in_time(interrupted)
        assert returns_in_time(ticket.wait)


@pytest.mark.parametrize(("waits", "sizes"), [(3, [1, 3, 2]), (1, [1, 3, 1, 1])])
def test_where_several_waited_for_a_commit_the_next_one_gathers(writer, gate, monkeypatch, waits, sizes):
    monkeypatch.setattr("sigma_mem.store.writer._PAUSE_SECONDS", 1.0)
    append(writer, "0")
    gate.entered.acquire()
    tickets = [append(writer, str(n))[1] for n in (1, 2, 3)]
    threads = [threading.Thread(target=ticket.wait) for ticket in tickets[:waits]]
    for thread in threads:
        thread.start()
    while tickets[0].wanted < waits:
        time.sleep(0.001)
    gate.open.set()
    for thread in threads:
        thread.join()
    for n in (4, 5):
        ticket = append(writer, str(n))[1]
        if waits == 1:
            ticket.wait()  # nobody else came: it is written at once, as is the next
    ticket.wait()
    assert gate.sizes() == sizes
