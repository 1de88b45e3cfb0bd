"""One file for what training learned: named arrays and a JSON description, as safetensors.

The file is replaced as a whole, so a kill leaves the old one or the new one; nothing that is read
back can run code.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sigma_mem.errors import InputError, MissingExtraError, SigmaMemError

__all__ = ["Checkpoint", "CheckpointError", "load_checkpoint", "save_checkpoint"]


class CheckpointError(SigmaMemError):
    """A checkpoint is damaged, of another kind, or was made for something else."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What was read back.

    Attributes
    ----------
    kind : str
        What the file is, such as ``"phi"`` or ``"steering run"``.
    arrays : mapping of str to array
        Learned and running values, bit for bit.
    about : mapping
        The JSON description: model, stream hash, settings, scores.
    """

    kind: str
    arrays: Mapping[str, NDArray[Any]]
    about: Mapping[str, Any]

    def require(self, **expected: object) -> None:
        """Raise CheckpointError unless ``about`` holds these values.

        Examples
        --------
        >>> Checkpoint("phi", {}, {"seed": 1}).require(seed=2)
        Traceback (most recent call last):
        sigma_mem.train.checkpoint.CheckpointError: the checkpoint has seed = 1, expected 2; ...
        """
        for name, value in _leaves(expected).items():
            found = _leaves(self.about).get(name)
            if found != value:
                raise CheckpointError(
                    f"the checkpoint has {name} = {found!r}, expected {value!r}; "
                    "use the setting it was made with, or delete the file to start anew"
                )


def _leaves(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested values under dotted names, so that an error can name the one that differs."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        inner = _leaves(value, f"{prefix}{name}.") if isinstance(value, Mapping) and value else None
        found.update(inner if inner is not None else {f"{prefix}{name}": value})
    return found


def save_checkpoint(
    path: str | Path, kind: str, arrays: Mapping[str, NDArray[Any]], about: Mapping[str, Any]
) -> None:
    """Write the file so that it is there completely or not at all.

    Parameters
    ----------
    arrays : mapping of str to array
        Any numeric dtype.
    about : mapping
        Anything that JSON can say.
    """
    safetensors = _safetensors()
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f"{target.name}.{os.getpid()}.partial")
    described = {"kind": kind, "about": json.dumps(dict(about), sort_keys=True)}
    packed = {name: np.asarray(value, order="C") for name, value in arrays.items()}
    try:
        with partial.open("wb") as file:
            file.write(safetensors.save(packed, metadata=described))
            file.flush()
            os.fsync(file.fileno())
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def load_checkpoint(path: str | Path, kind: str) -> Checkpoint:
    """Read a file that `save_checkpoint` wrote.

    Raises
    ------
    InputError
        Where there is no such file.
    CheckpointError
        Where it is damaged, or of another kind.
    """
    _safetensors()
    from safetensors import SafetensorError, safe_open

    if not Path(path).is_file():
        raise InputError(f"no checkpoint at {path}; expected a file that  sigma-mem train  wrote")
    try:
        with safe_open(str(path), framework="numpy") as file:
            meta = dict(file.metadata() or {})
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{path} is not a readable safetensors file ({error}); make it anew") from error
    if meta.get("kind") != kind:
        found = f"of kind {meta['kind']!r}" if "kind" in meta else "not one of this package"
        raise CheckpointError(f"the checkpoint {path} is {found}; expected one of kind {kind!r}")
    return Checkpoint(kind, arrays, json.loads(meta["about"]))


def _safetensors() -> Any:
    try:
        import safetensors.numpy
    except ImportError as error:
        raise MissingExtraError(
            "training needs the package safetensors; run: pip install 'sigma-mem[center]'"
        ) from error
    return safetensors.numpy
