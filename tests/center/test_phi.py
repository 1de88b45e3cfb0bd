from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from sigma_mem.center.center import Center
from sigma_mem.center.errors import CenterError, SteeringMismatchError
from sigma_mem.center.phi import CenterEncoder, CenterFeatures, cached_features
from sigma_mem.center.project import Steering
from sigma_mem.center.trained import open_checkpoint, open_features
from sigma_mem.errors import InputError
from sigma_mem.events import FloatArray

from .conftest import whitened
from .families import tiny

QUESTIONS = [f"What is {i} {sign} {j}?" for i in range(4) for j in range(3) for sign in "+-*"]


def test_phi_are_unit_rows_with_a_constant_coordinate(tiny_center: Center) -> None:
    encoder = whitened(tiny_center, rank=8)
    phi = encoder.encode(QUESTIONS)
    assert (phi.shape, phi.dtype, encoder.rank) == ((len(QUESTIONS), 8), np.float64, 8)
    np.testing.assert_allclose(np.linalg.norm(phi, axis=1), 1)
    np.testing.assert_allclose(phi[:, -1], np.sqrt(0.5))
    cosines = phi[:, :-1] @ phi[:, :-1].T * 2
    assert np.median(np.abs(cosines[~np.eye(len(phi), dtype=bool)])) < 0.8  # not all in one direction


def test_a_question_is_encoded_alike_alone_and_in_company(tiny_center: Center) -> None:
    encoder = whitened(tiny_center, rank=8)
    texts = ["short", "a much longer question " * 20, ""]
    together = encoder.encode(texts)
    alone = np.concatenate([encoder.encode([text]) for text in texts])
    np.testing.assert_allclose(together, alone, atol=1e-4)


def test_an_encoder_knows_what_its_map_was_learned_on(tiny_center: Center) -> None:
    encoder = whitened(tiny_center, rank=8)
    same = CenterEncoder(encoder.source, encoder.phi, expected=encoder.source.name)
    assert (same.name, same.version) == (encoder.name, encoder.version)
    other = Center(tiny("llama", seed=1), tiny_center.writer.tokenizer)
    with pytest.raises(SteeringMismatchError, match="learned on features"):
        CenterEncoder(CenterFeatures(other), encoder.phi, expected=encoder.source.name)


def test_block_pooling_and_length_are_choices_with_names_of_their_own(tiny_center: Center) -> None:
    texts = ["one two three four five six seven eight", "nine"]
    made = [
        CenterFeatures(tiny_center, tokens=tokens, block=block, pooling=pooling)
        for tokens, block, pooling in (
            (80, 1, "mean"),
            (80, 1, "last"),
            (80, 1, "max"),
            (80, 2, "mean"),
            (4, 1, "mean"),
        )
    ]
    assert len({source.name for source in made}) == len(made)
    found = [source.features(texts) for source in made]
    for i, one in enumerate(found):
        assert all(np.abs(one[0] - other[0]).max() > 1e-6 for other in found[i + 1 :])
        np.testing.assert_allclose(open_features(made[i].name, tiny_center).features(texts), one)
    for wrong, says in (({"block": 99}, "block is 99"), ({"pooling": "sum"}, "pooling is 'sum'")):
        with pytest.raises(InputError, match=says):
            CenterFeatures(tiny_center, **wrong)  # type: ignore[arg-type]


def test_features_do_not_depend_on_the_batch(tiny_center: Center) -> None:
    source = CenterFeatures(tiny_center, tokens=12)
    texts = ["short", "a question that is a good deal longer than twelve tokens are", ""]
    together = source.features(texts)
    alone = np.concatenate([source.features([text]) for text in texts])
    np.testing.assert_allclose(together, alone, atol=1e-6)
    assert np.isfinite(together).all()


def test_features_leave_the_first_token_out(tiny_center: Center) -> None:
    source = CenterFeatures(tiny_center, tokens=12, block=1)
    ids = torch.tensor([source._ids("what is it?")])
    states = tiny_center.model(ids, output_hidden_states=True).hidden_states[1][0]  # input of block 1
    found = source.features(["what is it?"])[0]
    np.testing.assert_allclose(found, states[1:].double().mean(0).numpy(), atol=1e-6)


class Counting:
    name = "counting"

    def __init__(self) -> None:
        self.asked: list[str] = []

    def features(self, texts: list[str]) -> FloatArray:
        self.asked += texts
        return np.array([[float(len(text)), 1.0] for text in texts]).reshape(-1, 2)


def test_features_are_computed_once(tmp_path: Path) -> None:
    source, texts = Counting(), ["a", "bb", "a", "ccc"]
    first = cached_features(source, texts, tmp_path, chunk=2)
    np.testing.assert_array_equal(first[:, 0], [1, 2, 1, 3])
    assert source.asked == ["a", "bb", "ccc"]
    again = cached_features(source, ["ccc", "dddd"], tmp_path)
    np.testing.assert_array_equal(again[:, 0], [3, 4])
    assert source.asked == ["a", "bb", "ccc", "dddd"]
    for file in tmp_path.iterdir():
        file.write_bytes(b"damaged")
    np.testing.assert_array_equal(cached_features(source, texts, tmp_path), first)
    assert len(source.asked) == 7


def test_a_bare_steering_is_told_apart(tmp_path: Path) -> None:
    Steering(8, 3, 1.0).save(tmp_path / "bare.safetensors")
    with pytest.raises(CenterError, match="no learned φ"):
        open_checkpoint(tmp_path / "bare.safetensors")
