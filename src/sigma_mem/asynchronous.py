"""The same memory for asyncio programs: every call runs in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from functools import wraps
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


def _property(name: str) -> Any:
    """A property of the memory inside."""
    return property(lambda self: getattr(self.mem, name), doc=getattr(SigmaMem, name).__doc__)


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

    peers, events, rank = _property("peers"), _property("events"), _property("rank")
    settings, encoder, keep_text = _property("settings"), _property("encoder"), _property("keep_text")
    state, reads = _property("state"), _property("reads")

    async def __aenter__(self) -> AsyncSigmaMem:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
