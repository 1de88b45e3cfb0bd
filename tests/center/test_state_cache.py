from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import torch
from torch import Tensor

from sigma_mem.center.state_cache import StateCache, open_cache, state_key
from sigma_mem.errors import InputError


def key(i: int) -> bytes:
    return state_key("model", 3, [i])


def states(i: int, tokens: int = 10, width: int = 8, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(tokens, width, generator=torch.Generator().manual_seed(i)).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_states_come_back_bit_for_bit_and_after_a_restart(tmp_path: Path, dtype: torch.dtype) -> None:
    cache = StateCache(tmp_path)
    for i in range(20):
        cache.put(key(i), states(i, tokens=i + 1, dtype=dtype))
    again = StateCache(tmp_path)
    assert len(again) == 20
    for i in range(20):
        found = again.get(key(i), dtype)
        assert found is not None
        assert torch.equal(found, states(i, tokens=i + 1, dtype=dtype))
    assert again.get(key(99), dtype) is None
    assert again.hits == 20


def test_the_folder_stays_within_its_bound_and_a_second_pass_finds_what_the_first_wrote(
    tmp_path: Path,
) -> None:
    bound = 80_000
    cache = StateCache(tmp_path, max_bytes=bound)
    for i in range(1000):
        cache.put(key(i), states(i))
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) <= bound
    kept = len(cache)
    assert 20 < kept < 250
    for i in range(1000):
        if cache.get(key(i), torch.float32) is None:
            cache.put(key(i), states(i))
    assert cache.hits == kept


def test_states_of_an_earlier_run_make_room_unless_they_are_read(tmp_path: Path) -> None:
    before = StateCache(tmp_path, max_bytes=80_000)
    for i in range(1000):
        before.put(key(i), states(i))
    later = StateCache(tmp_path, max_bytes=80_000)
    assert later.get(key(0), torch.float32) is not None
    for i in range(1000, 2000):
        later.put(key(i), states(i))
    assert later.get(key(1000), torch.float32) is not None
    assert later.get(key(0), torch.float32) is not None
    assert later.get(key(1), torch.float32) is None


def test_no_gigabytes_are_no_cache(tmp_path: Path) -> None:
    assert open_cache(tmp_path, 0.0) is None
    cache = open_cache(tmp_path, 0.5)
    assert cache is not None
    assert cache.max_bytes == 2**29


def test_two_writers_share_a_folder(tmp_path: Path) -> None:
    one, two = StateCache(tmp_path), StateCache(tmp_path)
    one.put(key(1), states(1))
    two.put(key(2), states(2))
    both = StateCache(tmp_path)
    assert [both.get(key(i), torch.float32) is not None for i in (1, 2)] == [True, True]


def test_damaged_bytes_and_a_damaged_file_count_as_absent(tmp_path: Path) -> None:
    cache = StateCache(tmp_path)
    cache.put(key(1), states(1))
    cache.put(key(2), states(2))
    with closing(sqlite3.connect(tmp_path / "states.db", isolation_level=None)) as db:
        db.execute("UPDATE states SET data = zeroblob(length(data)) WHERE rowid = 1")
    again = StateCache(tmp_path)
    assert [again.get(key(i), torch.float32) is not None for i in (1, 2)] == [False, True]
    again.put(key(1), states(1))
    assert again.get(key(1), torch.float32) is not None
    (tmp_path / "states.db").write_bytes(b"no database")
    broken = StateCache(tmp_path)
    broken.put(key(3), states(3))
    assert broken.get(key(3), torch.float32) is None


def test_a_row_larger_than_half_the_bound_is_not_kept(tmp_path: Path) -> None:
    cache = StateCache(tmp_path, max_bytes=20_000)
    cache.put(key(1), states(1, tokens=1000))
    assert len(cache) == 0


def test_the_key_names_model_block_and_tokens() -> None:
    keys = {
        state_key("a", 3, [1, 2]),
        state_key("b", 3, [1, 2]),
        state_key("a", 4, [1, 2]),
        state_key("a", 3, [12]),
    }
    assert len(keys) == 4


def test_a_bound_without_room_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="max_bytes is 0"):
        StateCache(tmp_path, max_bytes=0)
