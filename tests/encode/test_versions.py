"""A memory holds φ of one encoder, and of one version of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from sigma_mem import SigmaMem
from sigma_mem.encode.base import HashedEncoder
from sigma_mem.errors import EncoderMismatchError


@pytest.mark.parametrize("encoder", [None, "hashed"])
def test_another_version_of_the_encoder_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encoder: str | None
) -> None:
    path = tmp_path / "memory.db"
    with SigmaMem(["ann"], path, encoder="hashed") as mem:
        assert mem.encoder == {"name": "hashed", "version": HashedEncoder.version}
    monkeypatch.setattr(HashedEncoder, "version", "9")
    with pytest.raises(EncoderMismatchError, match=r"encoder is hashed 9; .* written with hashed"):
        SigmaMem(path=path, encoder=encoder)
