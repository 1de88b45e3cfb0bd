from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sigma_mem.center.checkpoint import read_arrays, write_arrays
from sigma_mem.center.errors import CheckpointError
from sigma_mem.errors import InputError


def test_arrays_and_description_come_back_bit_for_bit(tmp_path: Path) -> None:
    arrays = {
        "a": np.arange(6.0).reshape(2, 3).T,
        "n": np.array(3.5, dtype=np.float32),
        "i": np.array([1, -2]),
    }
    write_arrays(tmp_path / "deep" / "c.safetensors", arrays, {"format": "phi", "model": "tiny"})
    back, said = read_arrays(tmp_path / "deep" / "c.safetensors", "map", "a test", form="phi")
    assert said == {"format": "phi", "model": "tiny"}
    assert set(back) == set(arrays)
    for name, value in arrays.items():
        assert back[name].dtype == value.dtype
        assert back[name].shape == value.shape
        np.testing.assert_array_equal(back[name], value)


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "c.safetensors"
    write_arrays(path, {"a": np.ones(2)}, {})
    with pytest.raises(TypeError):
        write_arrays(path, {"a": np.zeros(2)}, {"not": object()})  # type: ignore[dict-item]
    np.testing.assert_array_equal(read_arrays(path, "map", "a test")[0]["a"], np.ones(2))
    assert list(tmp_path.iterdir()) == [path]


def test_errors_say_what_is_wrong(tmp_path: Path) -> None:
    path = tmp_path / "c.safetensors"
    with pytest.raises(InputError, match="no map at"):
        read_arrays(path, "map", "a test")
    path.write_bytes(b"not tensors at all")
    with pytest.raises(CheckpointError, match="not a readable safetensors file"):
        read_arrays(path, "map", "a test")
    for meta in ({"format": "another"}, {}):
        write_arrays(path, {"a": np.ones(2)}, meta)
        with pytest.raises(CheckpointError, match="is not a map; expected a file written by  a test"):
            read_arrays(path, "map", "a test", form="phi")
