"""The one place where the extra ``[center]`` is asked for.

``sigma_mem.center`` imports this module first, so that every other module of the package may
``import torch`` plainly: without the extra, the import of the package ends here with one clear error.
"""

from __future__ import annotations

from importlib.util import find_spec

from sigma_mem.errors import MissingExtraError

__all__ = ["NEEDED", "require_center"]

NEEDED = ("torch", "transformers", "safetensors")


def require_center(needed: tuple[str, ...] = NEEDED) -> None:
    """Raise MissingExtraError, naming the pip command, unless every package of the extra is installed."""
    absent = [name for name in needed if find_spec(name) is None]
    if absent:
        raise MissingExtraError(
            f"the center model needs {', '.join(absent)}, which this environment does not have: "
            "run  pip install 'sigma-mem[center]'"
        )
