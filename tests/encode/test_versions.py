"""A memory keeps the version of the encoder that wrote it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sigma_mem import SigmaMem
from sigma_mem.encode import open_encoder
from sigma_mem.encode.static import StaticEncoder
from sigma_mem.errors import EncoderMismatchError

QUESTION = "What is 17 * 23?"


def test_new_memories_take_the_newest_and_old_ones_keep_theirs(tmp_path: Path) -> None:
    pytest.importorskip("wordllama")
    with SigmaMem(["ann"], tmp_path / "old.db", encoder="static:1") as mem:
        assert mem.encoder == {"name": "static", "version": "1"}
    for encoder in (None, "static", "static:1", StaticEncoder("1")):
        with SigmaMem(path=tmp_path / "old.db", encoder=encoder) as mem:
            phi = StaticEncoder("1").encode([QUESTION])[0]
            np.testing.assert_array_equal(mem.encode(QUESTION), phi.astype(np.float32))
    with SigmaMem(["ann"]) as mem:
        assert mem.encoder == {"name": "static", "version": "2"}
    with (
        pytest.raises(EncoderMismatchError, match=r"encoder is static 2; .* written with static 1"),
        SigmaMem(path=tmp_path / "old.db", encoder=StaticEncoder("2")),
    ):
        pass


def test_a_name_may_carry_a_version() -> None:
    assert open_encoder("static:1").version == "1"
    assert open_encoder("static", "1").version == "1"
    assert open_encoder("static").version == "2"
