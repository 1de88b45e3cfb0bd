from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from sigma_mem.center.checkpoint import load_checkpoint, save_checkpoint
from sigma_mem.center.errors import CheckpointError
from sigma_mem.errors import InputError


def test_arrays_and_description_come_back_bit_for_bit(tmp_path: Path) -> None:
    arrays = {
        "a": np.arange(6.0).reshape(2, 3).T,
        "n": np.array(3.5, dtype=np.float32),
        "i": np.array([1, -2]),
    }
    about = {"model": "tiny", "settings": {"rate": 0.1, "names": ["x", "y"]}}
    save_checkpoint(tmp_path / "deep" / "c.safetensors", "phi", arrays, about)
    back, said = load_checkpoint(tmp_path / "deep" / "c.safetensors", "phi")
    assert said == about
    assert set(back) == set(arrays)
    for name, value in arrays.items():
        assert back[name].dtype == value.dtype
        assert back[name].shape == value.shape
        np.testing.assert_array_equal(back[name], value)


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "c.safetensors"
    save_checkpoint(path, "phi", {"a": np.ones(2)}, {})
    with pytest.raises(TypeError):
        save_checkpoint(path, "phi", {"a": np.zeros(2)}, {"not": object()})
    np.testing.assert_array_equal(load_checkpoint(path, "phi")[0]["a"], np.ones(2))
    assert list(tmp_path.iterdir()) == [path]


def test_errors_say_what_is_wrong(tmp_path: Path) -> None:
    path = tmp_path / "c.safetensors"
    with pytest.raises(InputError, match="no checkpoint at"):
        load_checkpoint(path, "phi")
    path.write_bytes(b"not tensors at all")
    with pytest.raises(CheckpointError, match="not a readable safetensors file"):
        load_checkpoint(path, "phi")
    save_checkpoint(path, "phi", {"a": np.ones(2)}, {"seed": 1})
    with pytest.raises(CheckpointError, match="kind 'phi'; expected one of kind 'steering run'"):
        load_checkpoint(path, "steering run")


def test_a_foreign_safetensors_file_is_refused(tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    save_file({"a": np.ones(1)}, tmp_path / "f.safetensors", metadata={"about": json.dumps({})})
    with pytest.raises(CheckpointError, match="not one of this package"):
        load_checkpoint(tmp_path / "f.safetensors", "phi")
