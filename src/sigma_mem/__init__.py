"""Σ-Mem: an online reliability memory for systems of several language models or agents.

>>> import sigma_mem
>>> sigma_mem.__version__
'0.2.0'
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sigma_mem.errors import SigmaMemError
from sigma_mem.events import Answer, Decision, Event, Feedback
from sigma_mem.memory import Settings, SigmaState

if TYPE_CHECKING:
    from sigma_mem.asynchronous import AsyncSigmaMem
    from sigma_mem.client import AsyncClient, Client
    from sigma_mem.session import Budget, Price, SigmaMem

__all__ = [
    "Answer",
    "AsyncClient",
    "AsyncSigmaMem",
    "Budget",
    "Client",
    "Decision",
    "Event",
    "Feedback",
    "Price",
    "Settings",
    "SigmaMem",
    "SigmaMemError",
    "SigmaState",
]

__version__ = "0.2.0"


# Imported on first use, so that `import sigma_mem` stays quick.
_LATER = {
    **dict.fromkeys(("Budget", "Price", "SigmaMem"), "session"),
    **dict.fromkeys(("AsyncClient", "Client"), "client"),
    "AsyncSigmaMem": "asynchronous",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'sigma_mem' has no attribute {name!r}")
    return getattr(import_module(f"sigma_mem.{_LATER[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
