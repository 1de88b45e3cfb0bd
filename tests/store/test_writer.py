"""The queue: batches, back-pressure, and what happens when a batch cannot be written."""

import threading
import time
from contextlib import suppress

import pytest

from invariants.keeping import Interrupted, interrupt_after
from sigma_mem.errors import StoreError
from sigma_mem.store import InMemoryStore
from sigma_mem.store.base import Record
from sigma_mem.store.rows import Queued
from sigma_mem.store.writer import Writer


class Gate:
    """A small stand-in of the tables: a list behind a gate that the test opens, shuts and breaks."""

    def __init__(self):
        self.rows = []
        self.batches = []
        self.open = threading.Event()
        self.entered = threading.Semaphore(0)
        self.broken = None
        self.closed = 0

    def commit(self, records):
        self.entered.release()
        assert self.open.wait(10)
        if self.broken is not None:
            raise self.broken
        self.batches.append(len(records))
        self.rows.extend(records)

    def last(self):
        return len(self.rows)

    def exists(self, namespace, kind, id):
        return any(ns == namespace and (r.kind, r.id) == (kind, id) for ns, r, *_ in self.rows)

    def close(self):
        self.closed += 1


@pytest.fixture
def gate():
    return Gate()


@pytest.fixture
def writer(gate):
    made = Writer(gate, lambda: None, capacity=4)
    made.start()
    yield made
    gate.open.set()
    made.stop()


def append(writer, id):
    return writer.append([Queued("ns", Record("decision", id, id, b""))], None)


def test_what_gathers_during_a_commit_is_written_together(writer, gate):
    append(writer, "0")
    gate.entered.acquire()
    tickets = [append(writer, str(n))[1] for n in (1, 2, 3)]
    gate.open.set()
    for ticket in tickets:
        ticket.wait()
    assert gate.batches == [1, 3]
    assert [r.seq for _, r, *_ in gate.rows] == [1, 2, 3, 4]


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
    assert gate.last() == 1


def test_append_waits_while_the_queue_is_full(writer, gate):
    append(writer, "0")
    gate.entered.acquire()
    for n in range(1, 5):
        append(writer, str(n))
    blocked = threading.Thread(target=append, args=(writer, "5"))
    blocked.start()
    blocked.join(0.1)
    assert blocked.is_alive()
    gate.open.set()
    blocked.join(10)
    assert not blocked.is_alive()
    writer.flush()
    assert gate.last() == 6


def test_a_failed_batch_drops_itself_and_everything_behind_it_only(writer, gate):
    gate.open.set()
    append(writer, "kept")[1].wait()
    gate.entered.acquire()
    gate.open.clear()
    gate.broken = StoreError("disk full")
    seq_a, a = append(writer, "a")
    gate.entered.acquire()
    seq_b, b = append(writer, "b")
    assert (seq_a, seq_b) == (2, 3)
    assert writer.find("ns", "decision", "a").seq == 2
    gate.open.set()
    for ticket in (a, b, a):
        with pytest.raises(StoreError, match="disk full"):
            ticket.wait()
    assert gate.batches == [1]
    assert writer.find("ns", "decision", "a") is None
    assert writer.of_event("ns", "b") == []
    assert writer.position() == (1, 1)
    gate.broken = None
    seq, again = append(writer, "a")
    again.wait()
    assert seq == 2
    assert [(r.id, r.seq) for _, r, *_ in gate.rows] == [("kept", 1), ("a", 2)]
    assert writer.epoch == 1


def test_flush_raises_what_the_batch_met_and_drain_does_not(writer, gate):
    gate.broken = StoreError("disk full")
    append(writer, "a")
    gate.entered.acquire()
    append(writer, "b")
    threading.Timer(0.05, gate.open.set).start()
    with pytest.raises(StoreError, match="disk full"):
        writer.flush()
    gate.open.clear()
    append(writer, "c")
    gate.entered.acquire()
    threading.Timer(0.05, gate.open.set).start()
    writer.drain()
    assert writer.position() == (0, 2)


def test_who_waits_for_room_goes_on_when_the_queue_is_dropped(writer, gate):
    gate.broken = StoreError("disk full")
    append(writer, "0")
    gate.entered.acquire()
    for n in range(1, 5):
        append(writer, str(n))
    results = []
    blocked = threading.Thread(target=lambda: results.append(append(writer, "5")))
    blocked.start()
    time.sleep(0.05)
    gate.open.set()
    blocked.join(10)
    assert results[0][0] == 1


def test_numbers_follow_the_ledger_when_a_commit_failed_after_it_was_done(writer, gate):
    gate.open.set()

    def commit(records):
        gate.rows.extend(records)
        raise StoreError("the disk went away after the write")

    writer._durable.commit = commit
    _, ticket = append(writer, "a")
    with pytest.raises(StoreError):
        ticket.wait()
    assert writer.position() == (1, 1)
    del writer._durable.commit
    assert append(writer, "b")[0] == 2


def test_a_writer_that_dies_leaves_nobody_waiting(gate, monkeypatch):
    crashes = []
    monkeypatch.setattr(threading, "excepthook", lambda args: crashes.append(args.exc_type))
    released = []
    writer = Writer(gate, lambda: released.append(True))
    writer.start()
    gate.broken = ZeroDivisionError("a bug")
    gate.open.set()
    _, ticket = append(writer, "a")
    with pytest.raises(StoreError, match="the writer has ended"):
        ticket.wait()
    writer.stop()
    with pytest.raises(StoreError, match="closed"):
        append(writer, "b")
    assert crashes == [ZeroDivisionError]
    assert released == [True]
    assert gate.closed == 1


def test_stop_writes_what_is_queued_then_closes_once(writer, gate):
    append(writer, "a")
    gate.open.set()
    append(writer, "b")
    writer.stop()
    writer.stop()
    assert gate.last() == 2
    assert gate.closed == 1


def test_the_collector_may_stop_it_in_its_own_thread(gate):
    """A store that is garbage can be collected while its writer runs: no join with itself."""
    stopped = threading.Event()
    writer = Writer(gate, stopped.set)
    writer.start()
    gate.open.set()
    gate.commit = lambda records: (gate.rows.extend(records), writer.stop())
    append(writer, "a")[1].wait()
    assert stopped.wait(10)
    assert gate.last() == 1


def test_what_nobody_waits_for_is_written_with_what_comes_meanwhile(writer, gate):
    gate.open.set()
    for n in range(3):
        append(writer, str(n))
    while not gate.batches:
        time.sleep(0.005)
    assert gate.batches == [3]


def test_who_waits_does_not_linger(writer, gate, monkeypatch):
    monkeypatch.setattr("sigma_mem.store.writer._LINGER_SECONDS", 60.0)
    gate.open.set()
    append(writer, "0")
    append(writer, "1")[1].wait()
    assert gate.batches == [2]
    append(writer, "2")
    writer.flush()
    assert gate.batches == [2, 1]


def test_a_job_is_done_after_what_was_queued_before_it_and_says_how_it_failed(writer, gate):
    done, errors = [], []

    def fail():
        raise StoreError("no room")

    assert not writer.after_commit(lambda: done.append("at once"), errors.append)
    append(writer, "0")
    assert writer.after_commit(lambda: done.append(len(gate.rows)), errors.append)
    assert writer.after_commit(fail, errors.append)
    gate.open.set()
    append(writer, "1")[1].wait()
    append(writer, "2")[1].wait()
    assert done == [2]
    assert [str(error) for error in errors] == ["no room"]


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


def waiting(ticket):
    """A thread that waits for a ticket."""
    thread = threading.Thread(target=ticket.wait)
    thread.start()
    return thread


@pytest.mark.parametrize(("waits", "batches"), [(3, [1, 3, 2]), (1, [1, 3, 1, 1])])
def test_where_several_waited_for_a_batch_the_next_one_gathers(writer, gate, monkeypatch, waits, batches):
    monkeypatch.setattr("sigma_mem.store.writer._PAUSE_SECONDS", 1.0)
    append(writer, "0")
    gate.entered.acquire()
    tickets = [append(writer, str(n))[1] for n in (1, 2, 3)]
    threads = [waiting(ticket) for ticket in tickets[:waits]]
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
    assert gate.batches == batches
