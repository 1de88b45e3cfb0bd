"""Checkpoint files: named arrays and a description as safetensors, replaced as a whole.

A kill leaves the old file or the new one, and nothing that is read back can run code.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from sigma_mem.center.errors import CheckpointError
from sigma_mem.errors import InputError
from sigma_mem.files import replace_file

Arrays = dict[str, NDArray[Any]]


def write_arrays(path: str | Path, arrays: Mapping[str, NDArray[Any]], meta: Mapping[str, str]) -> None:
    """Write arrays of any numeric dtype with their metadata; the folder is made if absent."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    with replace_file(target) as temporary:
        save_file({k: np.asarray(v, order="C") for k, v in arrays.items()}, temporary, metadata=dict(meta))


def read_arrays(
    path: str | Path, what: str, writer: str, *, form: str | None = None
) -> tuple[Arrays, dict[str, str]]:
    """Arrays and metadata of a file; ``what`` it is and its ``writer`` are for the error messages.

    Raises InputError if there is no such file, CheckpointError if it is damaged or its metadata do not
    give ``form`` as its format.
    """
    if not Path(path).is_file():
        raise InputError(f"no {what} at {path}; expected a file written by  {writer}")
    try:
        with safe_open(str(path), framework="numpy") as file:
            arrays, meta = {name: file.get_tensor(name) for name in file.keys()}, dict(file.metadata() or {})  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise CheckpointError(
            f"{path} is not a readable safetensors file ({error}); expected a {what} written by  {writer}"
        ) from error
    if form is not None and meta.get("format") != form:
        raise CheckpointError(f"{path} is not a {what}; expected a file written by  {writer}")
    return arrays, meta
