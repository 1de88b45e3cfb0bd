"""What every part of the service shares."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field

from sigma_mem.serve.config import ServerConfig
from sigma_mem.serve.keys import KeyRing
from sigma_mem.serve.logs import Audit
from sigma_mem.serve.memories import Memories
from sigma_mem.serve.metrics import Metrics


@dataclass(frozen=True, slots=True)
class Context:
    """Configuration, keys, memories, metrics and audit of one service; what runs and closes with it."""

    config: ServerConfig
    keys: KeyRing
    memories: Memories
    metrics: Metrics
    audit: Audit
    closing: list[Callable[[], Awaitable[None]]] = field(default_factory=list)
    running: list[AbstractAsyncContextManager[None]] = field(default_factory=list)
