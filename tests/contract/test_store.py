"""What every store does, run for every store that there is."""

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sigma_mem.errors import ConflictError, InputError, StoreError
from sigma_mem.store import InMemoryStore, PostgresStore, Record, Snapshot, SqliteStore


@pytest.fixture(params=["inmemory", "sqlite", "postgres"])
def store(request, tmp_path):
    if request.param == "postgres":
        opened = PostgresStore(request.getfixturevalue("postgres"))
    else:
        opened = InMemoryStore() if request.param == "inmemory" else SqliteStore(tmp_path / "memory.db")
    yield opened
    opened.close()


def record(id, kind="decision", event=None, source=None, body=b"what it says"):
    return Record(kind, id, id if event is None else event, body, source)


def ids(records):
    return [r.id for r in records]


def test_numbers_are_contiguous_from_one_in_each_namespace(store):
    assert store.append("a", [record("1")])[0] == 1
    assert store.append("b", [record("1"), record("2")])[0] == 2
    assert store.append("a", [record("2")])[0] == 2
    assert [r.seq for r in store.records("a")] == [r.seq for r in store.records("b")] == [1, 2]


def test_a_record_comes_back_whole_before_and_after_it_is_durable(store):
    body = bytes(range(256)) * 3
    seq, ticket = store.append("ns", [Record("feedback", "f1", "d1", body, "ann")])
    expected = Record("feedback", "f1", "d1", body, "ann", seq)
    assert store.find("ns", "feedback", "f1") == expected
    ticket.wait()
    assert store.find("ns", "feedback", "f1") == expected
    assert list(store.records("ns")) == [expected]
    assert store.of_event("ns", "d1") == [expected]


texts = st.text(alphabet=st.characters(blacklist_categories=["Cs"]), max_size=8)
bodies = st.binary(max_size=40) | st.binary(max_size=9).map(lambda part: 50 * part)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)
@given(
    st.lists(
        st.tuples(
            texts,
            texts,
            texts,
            bodies,
            st.none() | texts,
        ),
        min_size=1,
        max_size=4,
        unique_by=lambda parts: parts[:2],
    )
)
def test_any_text_and_bytes_come_back(store, parts):
    namespace = f"{len(store.namespaces())}'; DROP TABLE record; --"
    records = [Record(*part) for part in parts]
    last, ticket = store.append(namespace, records)
    ticket.wait()
    back = list(store.records(namespace))
    assert [r.seq for r in back] == list(range(last - len(parts) + 1, last + 1))
    assert [(r.kind, r.id, r.event, r.body, r.source) for r in back] == parts
    assert [store.find(namespace, r.kind, r.id) for r in back] == back


def test_records_are_in_order_and_bounded_by_after_and_until(store):
    for n in range(1, 1201):  # more than one page
        store.append("ns" if n % 3 else "other", [record(str(n))])
    numbers = [r.seq for r in store.records("ns")]
    assert numbers == list(range(1, 801))
    assert [r.seq for r in store.records("ns", after=4, until=8)] == [5, 6, 7, 8]
    assert [r.seq for r in store.records("ns", after=798)] == [799, 800]
    assert ids(store.records("ns")) == [str(n) for n in range(1, 1201) if n % 3]
    assert [r.seq for r in store.records("ns", after=5, until=5)] == []
    assert [r.seq for r in store.records("ns", until=10_000)] == numbers
    assert list(store.records("nobody")) == []


def test_records_can_be_read_while_more_are_appended(store):
    for n in range(600):
        store.append("ns", [record(str(n))])
    seen = []
    for r in store.records("ns"):
        seen.append(r.seq)
        if r.seq <= 5:
            store.append("ns", [record(f"late {r.seq}")])
    assert seen == list(range(1, 601))


def test_find_is_by_namespace_kind_and_id(store):
    store.append("a", [record("x", kind="decision"), record("x", kind="feedback")])
    store.append("b", [record("x", kind="decision")])
    assert store.find("a", "decision", "x").seq == 1
    assert store.find("a", "feedback", "x").seq == 2
    assert store.find("b", "decision", "x").seq == 1
    assert store.find("b", "feedback", "x") is None
    assert store.find("a", "decision", "X") is None
    assert store.find("c", "decision", "x") is None
    assert store.find("a", "decision", "x") == store.find("a", "decision", "x")


def test_of_event_has_the_events_records_of_one_namespace_in_order(store):
    store.append("a", [record("d1"), record("f1", kind="feedback", event="d1")])
    store.append("b", [record("d1")])
    store.append("a", [record("p", kind="peer", event=""), record("f2", kind="feedback", event="d1")])
    assert ids(store.of_event("a", "d1")) == ["d1", "f1", "f2"]
    store.flush()
    store.append("a", [record("f3", kind="feedback", event="d1")])
    assert ids(store.of_event("a", "d1")) == ["d1", "f1", "f2", "f3"]
    assert store.of_event("a", "nothing") == []
    assert store.of_event("a", "") == []


@pytest.mark.parametrize("durable", [False, True])
def test_feedback_is_found_by_its_source(store, durable):
    said = ("ann", "bob", "ann", 'ännchen "x"', "ann")
    for n, source in enumerate(said, start=1):
        store.append("a", [record(f"f{n}", kind="feedback", event="d1", source=source)])
    store.append("a", [record("d2")])
    store.append("b", [record("f9", kind="feedback", source="ann")])
    if durable:
        store.flush()
    assert ids(store.of_source("a", "ann")) == ["f1", "f3", "f5"]
    assert [r.seq for r in store.of_source("a", "ann", until=4)] == [1, 3]
    assert ids(store.of_source("a", 'ännchen "x"')) == ["f4"]
    assert ids(store.of_source("a", "nobody")) == []
    assert store.sources("a") == {"ann": 3, "bob": 1, 'ännchen "x"': 1}
    assert store.sources("c") == {}


@pytest.mark.parametrize("durable", [False, True])
def test_the_same_kind_and_id_again_is_refused_with_everything_beside_it(store, durable):
    store.append("a", [record("1")])
    if durable:
        store.flush()
    with pytest.raises(ConflictError, match="already in namespace 'a'"):
        store.append("a", [record("2"), record("1")])
    with pytest.raises(ConflictError, match="twice"):
        store.append("a", [record("3"), record("3")])
    assert store.find("a", "decision", "2") is None
    assert store.append("a", [record("2")])[0] == 2
    assert ids(store.records("a")) == ["1", "2"]


def test_an_empty_append_is_refused(store):
    with pytest.raises(InputError, match="expected at least one"):
        store.append("a", [])


def test_namespaces_are_those_with_records_sorted(store):
    assert store.namespaces() == []
    store.append("b", [record("1")])
    store.append("a", [record("1")])
    store.append("ä", [record("1")])
    assert store.namespaces() == ["a", "b", "ä"]


def test_a_snapshot_is_per_namespace_and_replaced(store):
    store.append("a", [record("1"), record("2"), record("3")])
    assert store.load_snapshot("a") is None
    store.save_snapshot("a", Snapshot(2, b"two"))
    assert store.load_snapshot("a") == Snapshot(2, b"two")
    store.save_snapshot("a", Snapshot(3, b"three" * 100_000))
    assert store.load_snapshot("a") == Snapshot(3, b"three" * 100_000)
    assert store.load_snapshot("b") is None
    assert store.load_snapshot("c") is None


@pytest.mark.parametrize("seq", [-1, 0, 2])
def test_a_snapshot_of_records_that_are_not_there_is_refused(store, seq):
    store.append("a", [record("1")])
    with pytest.raises(InputError, match="the ledger ends at 1"):
        store.save_snapshot("a", Snapshot(seq, b""))
    assert store.load_snapshot("a") is None


def test_the_epoch_stands_still_while_nothing_fails(store):
    store.append("a", [record("1")])
    store.flush()
    assert store.epoch("a") == 0
    store.append("a", [record("2")], epoch=0)
    store.save_snapshot("a", Snapshot(1, b"x"), epoch=0)
    assert store.load_snapshot("a") == Snapshot(1, b"x")


def test_eight_threads_lose_nothing_and_double_nothing(store):
    start = threading.Barrier(8)

    def write(thread):
        start.wait()
        tickets, numbers = [], []
        for n in range(250):
            id = f"{thread}-{n}"
            pair = [record(id), record(id, kind="feedback", event=id)]
            last, ticket = store.append(f"ns{thread % 3}", pair)
            tickets.append(ticket)
            numbers.append(last)
            assert store.find(f"ns{thread % 3}", "feedback", id).seq == last
            assert [r.seq for r in store.of_event(f"ns{thread % 3}", id)] == [last - 1, last]
        for ticket in tickets:
            ticket.wait()
        return numbers

    with ThreadPoolExecutor(8) as pool:
        written = list(pool.map(write, range(8)))
    for numbers in written:
        assert numbers == sorted(numbers)
    by_name = {name: list(store.records(name)) for name in store.namespaces()}
    for thread, name in enumerate(sorted(by_name)):
        given = sorted(number for n in range(thread, 8, 3) for number in written[n])
        assert given == list(range(2, 2 * len(given) + 1, 2))
        assert [r.seq for r in by_name[name]] == list(range(1, 2 * len(given) + 1))
    assert set(Counter((r.kind, r.id) for lines in by_name.values() for r in lines).values()) == {1}
    assert sum(map(len, by_name.values())) == 4000
    for lines in by_name.values():
        numbers = [r.seq for r in lines]
        assert numbers == sorted(numbers)


def test_threads_race_for_one_id_and_one_wins(store):
    start = threading.Barrier(8)

    def write(thread):
        start.wait()
        try:
            return store.append("a", [record("same", body=b"%d" % thread)])
        except ConflictError:
            return None

    with ThreadPoolExecutor(8) as pool:
        won = [result for result in pool.map(write, range(8)) if result is not None]
    assert len(won) == 1
    assert ids(store.records("a")) == ["same"]


def test_close_twice_is_fine_and_a_closed_store_says_so(store):
    store.append("a", [record("1")])
    store.close()
    store.close()
    for use in (
        lambda: store.append("a", [record("2")]),
        lambda: store.append("new", [record("2")]),
        lambda: store.records("a"),
        lambda: store.find("a", "decision", "1"),
        lambda: store.of_event("a", "1"),
        lambda: store.save_snapshot("a", Snapshot(1, b"")),
        lambda: store.load_snapshot("a"),
        store.namespaces,
        store.flush,
    ):
        with pytest.raises(StoreError, match="closed"):
            use()
