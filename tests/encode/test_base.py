"""What every encoder shares: norms, versions; and the hashed encoder."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from sigma_mem import SigmaMem
from sigma_mem.encode.base import HashedEncoder, norms
from sigma_mem.errors import EncoderMismatchError


@pytest.mark.parametrize("shape", [(1, 64), (1, 1), (7, 63), (300, 256)])
def test_norms_are_numpys_bit_for_bit(shape):  # since φ is kept in ledgers
    rows = np.random.default_rng(0).standard_normal(shape)
    assert norms(rows).tobytes() == np.linalg.norm(rows, axis=-1, keepdims=True).tobytes()


@pytest.mark.parametrize("encoder", [None, "hashed"])
def test_another_version_of_the_encoder_is_refused(tmp_path, monkeypatch, encoder):
    path = tmp_path / "memory.db"
    with SigmaMem(["ann"], path, encoder="hashed") as mem:
        assert mem.encoder == {"name": "hashed", "version": HashedEncoder.version}
    monkeypatch.setattr(HashedEncoder, "version", "9")
    with pytest.raises(EncoderMismatchError, match=r"encoder is hashed 9; .* written with hashed"):
        SigmaMem(path=path, encoder=encoder)


def test_the_same_in_another_process_whatever_the_hash_seed() -> None:
    code = (
        "from sigma_mem.encode.base import HashedEncoder\n"
        "print(HashedEncoder().encode(['What is 2 + 2?']).tolist())"
    )
    seeds = [os.environ | {"PYTHONHASHSEED": seed} for seed in "12"]
    outs = {subprocess.check_output([sys.executable, "-c", code], env=env, text=True) for env in seeds}
    assert outs == {f"{HashedEncoder().encode(['What is 2 + 2?']).tolist()}\n"}


def test_texts_that_share_words_are_nearer() -> None:
    a, b, c = HashedEncoder().encode(
        ["the court heard the appeal", "the court refused the appeal", "def f(x): pass"]
    )
    assert a @ b > a @ c
