"""An encoder of one's own: checked, projected, and the same when a memory is opened again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sigma_mem import SigmaMem
from sigma_mem.encode import CustomEncoder
from sigma_mem.encode.custom import sign_projection
from sigma_mem.errors import EncoderMismatchError, InputError


def embedding(texts: list[str], dimension: int = 1536) -> np.ndarray:
    """Stands for a service: a unit vector that depends on the text alone."""
    rows = np.array([np.random.default_rng(sum(map(ord, text))).normal(size=dimension) for text in texts])
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_wide_vectors_are_projected_and_inner_products_kept() -> None:
    rng = np.random.default_rng(0)
    near = rng.normal(size=(40, 1536)) + 2 * rng.normal(size=1536)
    near /= np.linalg.norm(near, axis=1, keepdims=True)
    encoder = CustomEncoder(lambda texts: near[[int(text) for text in texts if text.isdigit()] or [0]])
    assert (encoder.rank, encoder.version) == (64, "1, 1536 to 64")
    phi = encoder.encode([str(i) for i in range(40)])
    np.testing.assert_allclose((phi**2).sum(axis=1), 1.0)
    assert np.abs(phi @ phi.T - near @ near.T).max() < 0.35
    assert np.abs(phi @ phi.T - near @ near.T).mean() < 0.08


def test_the_projection_never_changes() -> None:
    R = sign_projection(5, 4)
    signs = [[1, -1, -1, 1], [-1, 1, -1, 1], [-1, -1, 1, 1], [-1, 1, 1, -1], [1, 1, -1, -1]]
    np.testing.assert_array_equal(np.sign(R), signs)
    np.testing.assert_allclose(np.abs(R), 0.5)


def test_narrow_vectors_stay_as_they_are() -> None:
    encoder = CustomEncoder(lambda texts: embedding(texts, 256), name="mine", version="7")
    assert (encoder.name, encoder.version, encoder.rank) == ("mine", "7", 256)
    np.testing.assert_allclose(encoder.encode(["Why?"]), embedding(["Why?"], 256))


def test_a_memory_opened_again_has_the_same_phi(tmp_path: Path) -> None:
    with SigmaMem(["ann", "bob"], tmp_path / "m.db", encoder=embedding) as mem:
        assert mem.encoder == {"name": "embedding", "version": "1, 1536 to 64"}
        first = mem.route("Who wrote Hamlet?")
    with SigmaMem(path=tmp_path / "m.db", encoder=embedding) as mem:
        np.testing.assert_array_equal(mem.decider.encode("Who wrote Hamlet?"), first.phi)
    with (
        pytest.raises(EncoderMismatchError, match="1, 1536 to 64"),
        SigmaMem(path=tmp_path / "m.db", encoder=CustomEncoder(embedding, name="embedding", version="2")),
    ):
        pass


def test_a_memory_of_wide_vectors_that_was_not_projected_stays_so(tmp_path: Path) -> None:
    class Wide:
        name, version, rank = "wide", "1", 300

        def encode(self, texts: list[str]) -> np.ndarray:
            return embedding(texts, 300)

    with SigmaMem(["ann"], tmp_path / "m.db", encoder=Wide(), rank=300) as mem:
        assert mem.encoder["version"] == "1"
    with SigmaMem(path=tmp_path / "m.db", encoder=Wide()) as mem:
        assert mem.decider.encode("Why?").shape == (300,)


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (lambda n: np.full((n, 2), 1.0), "norm 1.41421 for text 0; expected 1"),
        (lambda n: np.full((n, 2), np.nan), "norm nan"),
        (lambda n: np.ones((n + 1, 2)), r"shape \(3, 2\); expected \(2, 2\)"),
        (lambda n: np.eye(3)[:n], r"shape \(2, 3\); expected \(2, 2\)"),
        (lambda n: [["a", "b"]] * n, "no array of numbers"),
        (lambda n: [[1.0], [1.0, 0.0]], "no array of numbers"),
        (lambda n: None, "no array of numbers|shape"),
    ],
)
def test_what_is_wrong_is_said(returned: object, message: str) -> None:
    def sound_once(texts: list[str]) -> object:
        return np.array([[1.0, 0.0]]) if len(texts) == 1 else returned(len(texts))  # type: ignore[operator]

    with pytest.raises(InputError, match=message):
        CustomEncoder(sound_once).encode(["Why?", "How?"])  # type: ignore[arg-type]


def test_what_cannot_be_an_encoder_is_refused() -> None:
    with pytest.raises(InputError, match=r"shape \(2,\) for one text"):
        CustomEncoder(lambda texts: np.array([1.0, 0.0]))
    with pytest.raises(InputError, match=r"no array of numbers .* expected one vector"):
        CustomEncoder(lambda texts: [["a"]])
    with pytest.raises(InputError, match="called 'hashed', as a shipped one is"):
        CustomEncoder(embedding, name="hashed")
    with pytest.raises(InputError, match="type int; expected a name, a callable"):
        CustomEncoder(3)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="rank of at most 300"):
        CustomEncoder(lambda texts: embedding(texts, 300), rank=301)
