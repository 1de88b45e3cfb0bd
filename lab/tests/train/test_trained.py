"""From a trained checkpoint back to a working center, through files and through the command line."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from sigma_lab.cli.train import app
from sigma_mem import SigmaMem
from sigma_mem.center.errors import SteeringMismatchError
from sigma_mem.center.phi import CenterEncoder, EncoderFeatures
from sigma_mem.center.trained import TrainedCenter, open_checkpoint
from sigma_mem.encode.base import HashedEncoder
from sigma_mem.errors import InputError
from sigma_mem.streams import save_stream
from train.tiny import saved_center, tiny_stream


class Trained:
    def __init__(self, folder: Path) -> None:
        saved_center(folder / "model")
        self.model, self.out = str(folder / "model"), folder / "s.safetensors"
        self.stream = folder / "tiny.jsonl"
        save_stream(tiny_stream(60, peers=3), self.stream)
        self.options = [
            *("steering", str(self.stream), "--center", self.model, "--out", str(self.out)),
            *("--cache", str(folder / "cache"), "--events", "20", "--steps", "2", "--margin-steps", "1"),
            *("--rows", "6", "--gamma", "0.97", "--question-tokens", "16", "--answer-tokens", "16", "--json"),
        ]
        self.said = json.loads(CliRunner().invoke(app, self.options, catch_exceptions=False).stdout)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    return Trained(tmp_path_factory.mktemp("trained"))


@pytest.fixture(scope="module")
def opened(trained: Trained) -> TrainedCenter:
    return open_checkpoint(trained.out)


def test_the_command_says_what_it_did(trained: Trained) -> None:
    assert trained.said["checkpoint"] == str(trained.out)
    assert trained.said["best"]["held_loss"] <= trained.said["base"]["held_loss"]
    assert not trained.out.with_name("s.safetensors.run").exists()


def test_bad_options_are_said_before_any_work(trained: Trained, tmp_path: Path) -> None:
    for more, says in (
        (["--out", str(tmp_path / "no" / "s.safetensors")], "folder that does not exist"),
        (["--share", "1.5"], "share is 1.5"),
        (["--peers", "peer0,nobody"], "no peer 'nobody'"),
        (["--encoder", "magic"], "encoder is 'magic'"),
    ):
        with pytest.raises(InputError, match=says):
            CliRunner().invoke(app, [*trained.options, *more], catch_exceptions=False)


def test_a_checkpoint_opens_with_its_prompt_encoder_and_memory(opened: TrainedCenter) -> None:
    assert opened.center.writer.prompt.question_tokens == 16
    assert opened.center.steering is not None
    assert opened.gamma == 0.97
    assert opened.fast.shape == (opened.encoder.rank,)
    phi = opened.encoder.encode(["aaa 1", "a rather longer question of no use at all"])
    np.testing.assert_allclose(np.linalg.norm(phi, axis=1), 1.0)


def test_another_model_in_its_place_is_one_clear_error(trained: Trained, tmp_path: Path) -> None:
    saved_center(tmp_path, seed=1)
    with pytest.raises(SteeringMismatchError, match="learned for"):
        open_checkpoint(trained.out, center=str(tmp_path))


def test_a_map_for_other_features_is_refused(opened: TrainedCenter) -> None:
    with pytest.raises(SteeringMismatchError, match="learned on features center/"):
        CenterEncoder(
            EncoderFeatures(HashedEncoder()), opened.encoder.phi, expected=opened.encoder.source.name
        )


def test_the_program_of_the_page_runs(
    trained: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a tiny model in place of the one that it names, and this checkpoint."""
    page = (Path(__file__).parents[3] / "docs" / "lab" / "center.md").read_text(encoding="utf-8")
    (program,) = re.findall(r"^```py\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    monkeypatch.chdir(tmp_path)
    shutil.copy(trained.out, tmp_path / "steering.safetensors")
    scope: dict[str, object] = {}
    exec(program.replace('"smollm2"', repr(trained.model)), scope)
    mem = scope["mem"]
    assert isinstance(mem, SigmaMem)
    assert mem.events == 2
    mem.close()
