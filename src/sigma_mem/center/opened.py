"""Open a steering checkpoint with everything it was learned with: center, prompt, φ and w."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sigma_mem.center.center import Center
from sigma_mem.center.errors import CenterError
from sigma_mem.center.features import CenterFeatures, EncoderFeatures, Features
from sigma_mem.center.learned import LearnedEncoder, PhiMap
from sigma_mem.center.project import Steering
from sigma_mem.center.prompt import JudgePrompt
from sigma_mem.encode import open_encoder
from sigma_mem.events import FloatArray

__all__ = ["Opened", "open_checkpoint", "source_of"]


@dataclass(frozen=True, slots=True)
class Opened:
    """A steered center and what reads the memory for it.

    Attributes
    ----------
    center : Center
        With the steering in use.
    encoder : LearnedEncoder
        φ as it was learned; give it to `SigmaMem`, whose memory this steering reads.
    fast : (rank,) array
        w of the fast read, U_p + wᵀM_pφ.
    gamma : float
        γ of the memory that the steering was learned with.
    details : mapping
        What the trainer noted.
    """

    center: Center
    encoder: LearnedEncoder
    fast: FloatArray
    gamma: float
    details: Mapping[str, Any]


def open_checkpoint(path: str | Path, *, center: str | None = None, **settings: Any) -> Opened:
    """Load the checkpoint's model, prompt and φ; one error if they do not belong together.

    Parameters
    ----------
    center
        Name or folder of the model, where it is not to be found under the name it was trained by.
    settings
        Of ``Center.load``: device, dtype, cache …

    Examples
    --------
    ::

        opened = open_checkpoint("steering.safetensors")
        mem = SigmaMem(peers=[...], encoder=opened.encoder, center=opened.center)
        mem.select(question, answers)
    """
    steering = Steering.load(path)
    details: Mapping[str, Any] = steering.info.details
    arrays = {name: value.numpy() for name, value in steering.beside.items()}
    if "fast" not in arrays or "phi.weight" not in arrays or "prompt" not in details:
        raise CenterError(
            f"{path} holds P and g but no learned φ; expected one that  sigma-mem train steering  wrote"
        )
    first, last = details["blocks"]
    model = Center.load(
        center or steering.info.model,
        prompt=JudgePrompt(**details["prompt"]),
        scope=details["scope"],
        first=first,
        last=last,
        **settings,
    )
    model.use(steering)
    source = source_of(steering.info.encoder, model)
    encoder = LearnedEncoder(source, PhiMap.from_arrays(arrays), expected=steering.info.encoder)
    return Opened(model, encoder, arrays["fast"], float(details["settings"]["gamma"]), details)


def source_of(name: str, center: Center) -> Features:
    """The features of this name: "center", "static", "hashed" …, with or without the version behind it."""
    kind, _, version = name.partition("/")
    if kind != "center":
        return EncoderFeatures(open_encoder(kind))
    if not version:
        return CenterFeatures(center)
    _, block, tokens = version.rsplit("/", 2)
    return CenterFeatures(center, tokens=int(tokens), block=int(block))
