"""Which path gives which store."""

import pytest

from sigma_mem.errors import InputError
from sigma_mem.store import InMemoryStore, PostgresStore, SqliteStore, open_store


def test_none_is_in_memory_and_a_path_is_sqlite(tmp_path):
    assert isinstance(open_store(None), InMemoryStore)
    for path in (tmp_path / "a.db", str(tmp_path / "b ?#%20.db")):
        store = open_store(path)
        assert isinstance(store, SqliteStore)
        store.close()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.db", "b ?#%20.db"]
    store = open_store(tmp_path / "a.db", readonly=True)
    assert store.namespaces() == []
    store.close()


def test_an_address_of_postgresql_is_one(postgres):
    for url in (postgres, postgres.replace("postgresql://", "postgres://")):
        store = open_store(url)
        assert isinstance(store, PostgresStore)
        store.close()


@pytest.mark.parametrize("path", ["", ":memory:", "sqlite:///memory.db"])
def test_other_words_for_a_path_are_refused(path):
    with pytest.raises(InputError, match="expected a file path"):
        open_store(path)


def test_reading_nothing_is_refused():
    with pytest.raises(InputError, match="nothing to read"):
        open_store(None, readonly=True)
