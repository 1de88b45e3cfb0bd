"""The same memory for asyncio programs: every call runs in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar

from sigma_mem.errors import InputError
from sigma_mem.events import Answer
from sigma_mem.operations import Awaited, Operation
from sigma_mem.session import SigmaMem
from sigma_mem.session.panel import Panel

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")


def _wrapping(
    method: Callable[Concatenate[SigmaMem, P], T], wrap: Callable[[T], R]
) -> Callable[Concatenate[AsyncSigmaMem, P], Coroutine[Any, Any, R]]:
    """A method whose result is wrapped in turn."""

    @wraps(method)
    async def call(self: AsyncSigmaMem, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return wrap(await asyncio.to_thread(method, self.mem, *args, **kwargs))

    return call


class AsyncPanel:
    """A `Panel` for use with await: `next`, `change`, `answers` and `decision` are the panel's."""

    def __init__(self, panel: Panel) -> None:
        self.panel = panel

    async def add(self, peer: str, answer: str | Answer | None) -> bool:
        """`Panel.add`, in a thread."""
        return await asyncio.to_thread(self.panel.add, peer, answer)

    next = property(lambda self: self.panel.next)
    change = property(lambda self: self.panel.change)
    answers = property(lambda self: self.panel.answers)
    decision = property(lambda self: self.panel.decision)

    def __repr__(self) -> str:
        return repr(self.panel)


class AsyncSigmaMem(Awaited):
    """Wrap a SigmaMem, which is thread-safe, for use with await; it has the same methods.

    The functions of `sigma_mem.admin` take the memory inside: ``asyncio.to_thread(export, mem.mem, path)``.

    Examples
    --------
    >>> import numpy as np
    >>> async def main():
    ...     async with AsyncSigmaMem(SigmaMem(["a", "b"], rank=2)) as mem:
    ...         d = await mem.route(phi=np.array([1.0, 0.0]))
    ...         await mem.feedback(d.id, {"a": True})
    ...         return (await mem.route(phi=np.array([1.0, 0.0]))).peer
    >>> asyncio.run(main())
    'a'
    """

    def __init__(self, mem: SigmaMem) -> None:
        if not isinstance(mem, SigmaMem):
            raise InputError(f"mem is {mem!r:.80}; expected AsyncSigmaMem(SigmaMem(...))")
        self.mem = mem

    async def _call(
        self, operation: Operation[Any, T], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> T:
        return await asyncio.to_thread(operation.method, self.mem, *args, **kwargs)

    ask = _wrapping(SigmaMem.ask, AsyncPanel)

    namespace = _wrapping(SigmaMem.namespace, lambda mem: AsyncSigmaMem(mem))

    close = _wrapping(SigmaMem.close, lambda nothing: nothing)

    encode = _wrapping(SigmaMem.encode, lambda phi: phi)

    peers = property(lambda self: self.mem.peers, doc=SigmaMem.peers.__doc__)
    events = property(lambda self: self.mem.events, doc=SigmaMem.events.__doc__)
    rank = property(lambda self: self.mem.rank, doc=SigmaMem.rank.__doc__)
    settings = property(lambda self: self.mem.settings, doc=SigmaMem.settings.__doc__)
    encoder = property(lambda self: self.mem.encoder, doc=SigmaMem.encoder.__doc__)
    keep_text = property(lambda self: self.mem.keep_text, doc=SigmaMem.keep_text.__doc__)
    state = property(lambda self: self.mem.state, doc=SigmaMem.state.__doc__)
    reads = property(lambda self: self.mem.reads, doc=SigmaMem.reads.__doc__)

    async def __aenter__(self) -> AsyncSigmaMem:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
