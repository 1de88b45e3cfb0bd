"""Open a steering checkpoint together with everything it was learned with: center, prompt, φ and w."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sigma_mem.center.center import Center
from sigma_mem.center.errors import CheckpointError
from sigma_mem.center.phi import CenterEncoder, CenterFeatures, EncoderFeatures, Features, PhiMap
from sigma_mem.center.project import Steering
from sigma_mem.center.prompt import JudgePrompt
from sigma_mem.encode import open_encoder
from sigma_mem.events import FloatArray


@dataclass(frozen=True, slots=True)
class TrainedCenter:
    """A center with its steering in use, and what reads the memory for it.

    ``encoder`` makes φ as it was learned: give it to `SigmaMem`. ``fast`` is w of the fast read U_p + wᵀM_pφ,
    ``gamma`` the γ of the memory that the steering was learned with, ``details`` what the trainer noted.
    """

    center: Center
    encoder: CenterEncoder
    fast: FloatArray
    gamma: float
    details: Mapping[str, Any]

    @property
    def judge(self) -> tuple[str, str]:
        """Weights and prompt: what an unsteered utility depends on, apart from question and answer."""
        return self.center.fingerprint, self.center.writer.prompt.version


def open_checkpoint(path: str | Path, *, center: str | None = None, **settings: Any) -> TrainedCenter:
    """Load the checkpoint's model, prompt and φ; one error if they do not belong together.

    ``center`` is the name or folder of the model, if it is not found under the name it was trained by;
    ``settings`` are those of ``Center.load``: device, dtype, cache …

    Examples
    --------
    ::

        trained = open_checkpoint("steering.safetensors")
        mem = SigmaMem(peers=[...], encoder=trained.encoder, center=trained.center)
        mem.decide(question, answers, read="select")
    """
    steering = Steering.load(path)
    details = steering.info.details
    arrays = {name: value.numpy() for name, value in steering.beside.items()}
    if "fast" not in arrays or "phi.weight" not in arrays or "prompt" not in details:
        raise CheckpointError(
            f"{path} holds P and g but no learned φ; expected a file written by  sigma-mem train steering"
        )
    first, last = details["blocks"]
    model = Center.load(
        center or steering.info.model,
        steering=steering,
        prompt=JudgePrompt(**details["prompt"]),
        scope=details["scope"],
        first=first,
        last=last,
        **settings,
    )
    source = open_features(steering.info.encoder, model)
    encoder = CenterEncoder(source, PhiMap.from_arrays(arrays), expected=steering.info.encoder)
    return TrainedCenter(model, encoder, arrays["fast"], float(details["settings"]["gamma"]), details)


def open_features(
    name: str, center: Center, *, tokens: int | None = None, block: int | None = None, pooling: str = "mean"
) -> Features:
    """The features of this name: "center", "static", "hashed" …, with or without the version behind it.

    Block, pooling and length are those of "center" without a version.
    """
    kind, _, version = name.partition("/")
    if kind != "center":
        return EncoderFeatures(open_encoder(kind))
    if not version:
        chosen = {} if tokens is None else {"tokens": tokens}
        return CenterFeatures(center, block=block, pooling=pooling, **chosen)
    _, at, length = version.rsplit("/", 2)
    shortest, _, how = length.partition("-")
    return CenterFeatures(center, tokens=int(shortest), block=int(at), pooling=how or "mean")
