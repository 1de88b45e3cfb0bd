from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from string import ascii_lowercase

import numpy as np
import pytest

from sigma_mem.encode.sentence import SentenceEncoder, typical_prompts
from sigma_mem.errors import MissingExtraError


class Fixed:
    """Embeddings by a table of words, so that a test can work them out."""

    def __init__(self, shift: float = 0.0) -> None:
        self.shift = shift

    def encode(self, sentences: list[str]) -> np.ndarray:
        return np.array([[len(s) % 7 + self.shift, s.count("e"), s.count(" "), 1.0] for s in sentences])


def test_another_model_of_the_same_name_has_another_version() -> None:
    assert SentenceEncoder(Fixed(), name="m").version != SentenceEncoder(Fixed(1.0), name="m").version


def test_embeddings_are_centred_on_the_reference() -> None:
    """Inner products of φ are those of centred embeddings, up to the random projection."""
    texts = ["one", "a longer question here", "eee eee"]
    encoder = SentenceEncoder(Fixed(), name="m", rank=4000)
    h = Fixed().encode(texts) - Fixed().encode(typical_prompts()).mean(axis=0)
    h /= np.linalg.norm(h, axis=1, keepdims=True)
    phi = encoder.encode(texts)
    np.testing.assert_allclose(phi @ phi.T, (h @ h.T + 0.25) / 1.25, atol=0.06)


def test_without_the_package_the_error_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'sigma-mem\[sentence\]'"):
        SentenceEncoder("any/model")


@pytest.mark.skipif(
    importlib.util.find_spec("sentence_transformers") is None, reason="sentence-transformers is not installed"
)
@pytest.mark.filterwarnings("ignore")
def test_a_real_model_from_a_folder(tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import Pooling, Transformer
    from transformers import BertConfig, BertModel, BertTokenizerFast

    letters = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *ascii_lowercase]
    letters += [f"##{c}" for c in "aeiourstln"]
    (tmp_path / "vocab.txt").write_text("\n".join(letters))
    folder = tmp_path / "bert"
    BertTokenizerFast(str(tmp_path / "vocab.txt")).save_pretrained(folder)
    size = {"vocab_size": len(letters), "hidden_size": 32, "intermediate_size": 32}
    config = BertConfig(**size, num_hidden_layers=1, num_attention_heads=2)
    BertModel(config).save_pretrained(folder)
    part = Transformer(str(folder))
    SentenceTransformer(modules=[part, Pooling(32)]).save(str(tmp_path / "model"))

    model, texts = str(tmp_path / "model"), ["a first question", "another"]
    phi = SentenceEncoder(model).encode(texts)
    assert phi.shape == (2, 64)
    np.testing.assert_allclose(phi, SentenceEncoder(model).encode(texts), atol=1e-6)
