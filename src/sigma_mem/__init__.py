"""Σ-Mem: an online reliability memory for systems of several language models or agents.

>>> import sigma_mem
>>> sigma_mem.__version__
'0.2.0'
"""

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


def __getattr__(name: str) -> Any:
    # The session and asyncio are imported on first use, so that `import sigma_mem` stays quick.
    if name in ("Budget", "Price", "SigmaMem"):
        from sigma_mem import session

        return getattr(session, name)
    if name == "AsyncSigmaMem":
        from sigma_mem.asynchronous import AsyncSigmaMem

        return AsyncSigmaMem
    if name in ("AsyncClient", "Client"):
        from sigma_mem import client

        return getattr(client, name)
    raise AttributeError(f"module 'sigma_mem' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
