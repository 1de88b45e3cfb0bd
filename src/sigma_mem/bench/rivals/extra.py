"""The one place where rivals are imported."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from sigma_mem.errors import MissingExtraError

__all__ = ["rival_module"]


def rival_module(name: str) -> Any:
    """Import a rival's module, or say which command brings it."""
    try:
        return import_module(name)
    except ImportError as error:
        raise MissingExtraError(
            f"the rival {name} is not installed ({error}); run: pip install 'sigma-mem[rivals]'"
        ) from error
