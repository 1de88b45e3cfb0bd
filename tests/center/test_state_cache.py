from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from sigma_mem.center.state_cache import StateCache, state_key
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


def test_the_folder_stays_within_its_bound_and_the_newest_are_kept(tmp_path: Path) -> None:
    bound = 40_000
    cache = StateCache(tmp_path, max_bytes=bound, segment_bytes=8_000)
    largest = 0
    for i in range(1000):
        cache.put(key(i), states(i))
        largest = max(largest, cache.nbytes)
    assert largest <= bound
    assert len(cache) < 130
    assert cache.get(key(999), torch.float32) is not None
    assert cache.get(key(0), torch.float32) is None


def test_two_writers_share_a_folder(tmp_path: Path) -> None:
    one, two = StateCache(tmp_path), StateCache(tmp_path)
    one.put(key(1), states(1))
    two.put(key(2), states(2))
    both = StateCache(tmp_path)
    assert [both.get(key(i), torch.float32) is not None for i in (1, 2)] == [True, True]


def test_a_segment_that_another_process_evicted_counts_as_absent(tmp_path: Path) -> None:
    cache = StateCache(tmp_path)
    cache.put(key(1), states(1))
    for file in tmp_path.iterdir():
        file.unlink()
    assert cache.get(key(1), torch.float32) is None


def test_a_torn_index_and_damaged_bytes_count_as_absent(tmp_path: Path) -> None:
    cache = StateCache(tmp_path)
    cache.put(key(1), states(1))
    cache.put(key(2), states(2))
    (index,), (data,) = tmp_path.glob("*.index"), tmp_path.glob("*.states")
    index.write_bytes(index.read_bytes()[:-5])
    spoiled = bytearray(data.read_bytes())
    spoiled[3] ^= 1
    data.write_bytes(bytes(spoiled))
    again = StateCache(tmp_path)
    assert again.get(key(1), torch.float32) is None
    assert again.get(key(2), torch.float32) is None
    again.put(key(1), states(1))
    assert again.get(key(1), torch.float32) is not None


def test_a_row_larger_than_a_segment_is_not_kept(tmp_path: Path) -> None:
    cache = StateCache(tmp_path, max_bytes=1000, segment_bytes=500)
    cache.put(key(1), states(1, tokens=100))
    assert (len(cache), cache.nbytes) == (0, 0)


def test_the_key_names_model_block_and_tokens() -> None:
    keys = {
        state_key("a", 3, [1, 2]),
        state_key("b", 3, [1, 2]),
        state_key("a", 4, [1, 2]),
        state_key("a", 3, [12]),
    }
    assert len(keys) == 4


def test_a_bound_without_room_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="segment_bytes is 10"):
        StateCache(tmp_path, max_bytes=5, segment_bytes=10)
