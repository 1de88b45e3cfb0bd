"""The same memory for asyncio programs: every call runs in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar

from sigma_mem.errors import InputError
from sigma_mem.events import Answer
from sigma_mem.session import SigmaMem
from sigma_mem.session.panel import Panel
from sigma_mem.session.refold import Refolded

P = ParamSpec("P")
T = TypeVar("T")


def _in_thread(
    method: Callable[Concatenate[SigmaMem, P], T],
) -> Callable[Concatenate[AsyncSigmaMem, P], Coroutine[Any, Any, T]]:
    """The method of the wrapped memory, with the same signature, run in a thread."""

    @wraps(method)
    async def call(self: AsyncSigmaMem, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.to_thread(method, self.mem, *args, **kwargs)

    return call


def _wrapped(
    method: Callable[Concatenate[SigmaMem, P], SigmaMem],
) -> Callable[Concatenate[AsyncSigmaMem, P], Coroutine[Any, Any, AsyncSigmaMem]]:
    """The same for a method that returns another memory, and may take one, wrapped or not."""

    @wraps(method)
    async def call(self: AsyncSigmaMem, /, *args: P.args, **kwargs: P.kwargs) -> AsyncSigmaMem:
        plain: list[Any] = [_unwrapped(value) for value in args]
        named: dict[str, Any] = {name: _unwrapped(value) for name, value in kwargs.items()}
        return AsyncSigmaMem(await asyncio.to_thread(method, self.mem, *plain, **named))

    return call


def _unwrapped(value: Any) -> Any:
    return value.mem if isinstance(value, AsyncSigmaMem) else value


def _with_memory(
    method: Callable[Concatenate[SigmaMem, P], Refolded[SigmaMem]],
) -> Callable[Concatenate[AsyncSigmaMem, P], Coroutine[Any, Any, Refolded[AsyncSigmaMem]]]:
    """The same for a method whose result holds another memory."""

    @wraps(method)
    async def call(self: AsyncSigmaMem, /, *args: P.args, **kwargs: P.kwargs) -> Refolded[AsyncSigmaMem]:
        found = await asyncio.to_thread(method, self.mem, *args, **kwargs)
        said = found.decisions, found.right_before, found.right_after, found.differences
        return Refolded(AsyncSigmaMem(found.memory), *said)

    return call


def _made(make: Callable[P, SigmaMem]) -> Callable[P, Coroutine[Any, Any, AsyncSigmaMem]]:
    """The same for a function that makes a memory."""

    @wraps(make)
    async def call(*args: P.args, **kwargs: P.kwargs) -> AsyncSigmaMem:
        return AsyncSigmaMem(await asyncio.to_thread(make, *args, **kwargs))

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


def _with_panel(
    method: Callable[Concatenate[SigmaMem, P], Panel],
) -> Callable[Concatenate[AsyncSigmaMem, P], Coroutine[Any, Any, AsyncPanel]]:
    """The same for a method that returns a panel."""

    @wraps(method)
    async def call(self: AsyncSigmaMem, /, *args: P.args, **kwargs: P.kwargs) -> AsyncPanel:
        return AsyncPanel(await asyncio.to_thread(method, self.mem, *args, **kwargs))

    return call


class AsyncSigmaMem:
    """Wrap a SigmaMem, which is thread-safe, for use with await; it has the same methods.

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

    route = _in_thread(SigmaMem.route)
    vote = _in_thread(SigmaMem.vote)
    select = _in_thread(SigmaMem.select)
    decide = _in_thread(SigmaMem.decide)
    served = _in_thread(SigmaMem.served)
    set_price = _in_thread(SigmaMem.set_price)
    prices = _in_thread(SigmaMem.prices)
    spent = _in_thread(SigmaMem.spent)
    ask = _with_panel(SigmaMem.ask)
    effective_votes = _in_thread(SigmaMem.effective_votes)
    feedback = _in_thread(SigmaMem.feedback)
    revoke = _in_thread(SigmaMem.revoke)
    unrevoke = _in_thread(SigmaMem.unrevoke)
    sources = _in_thread(SigmaMem.sources)
    add_peer = _in_thread(SigmaMem.add_peer)
    remove_peer = _in_thread(SigmaMem.remove_peer)
    reset_peer = _in_thread(SigmaMem.reset_peer)
    rename_peer = _in_thread(SigmaMem.rename_peer)
    replace_peer = _in_thread(SigmaMem.replace_peer)
    encode = _in_thread(SigmaMem.encode)
    decision = _in_thread(SigmaMem.decision)
    decisions = _in_thread(SigmaMem.decisions)
    labels = _in_thread(SigmaMem.labels)
    trust = _in_thread(SigmaMem.trust)
    table = _in_thread(SigmaMem.table)
    history = _in_thread(SigmaMem.history)
    histories = _in_thread(SigmaMem.histories)
    explain = _in_thread(SigmaMem.explain)
    advice = _in_thread(SigmaMem.advice)
    drift = _in_thread(SigmaMem.drift)
    replayed = _in_thread(SigmaMem.replayed)
    snapshot = _in_thread(SigmaMem.snapshot)
    close = _in_thread(SigmaMem.close)
    forget = _in_thread(SigmaMem.forget)
    backup = _in_thread(SigmaMem.backup)
    export = _in_thread(SigmaMem.export)
    learn = _in_thread(SigmaMem.learn)
    refold = _with_memory(SigmaMem.refold)

    namespace = _wrapped(SigmaMem.namespace)
    merge = _wrapped(SigmaMem.merge)
    restore = staticmethod(_made(SigmaMem.restore))

    peers = property(lambda self: self.mem.peers, doc=SigmaMem.peers.__doc__)
    rank = property(lambda self: self.mem.rank, doc=SigmaMem.rank.__doc__)
    settings = property(lambda self: self.mem.settings, doc=SigmaMem.settings.__doc__)
    encoder = property(lambda self: self.mem.encoder, doc=SigmaMem.encoder.__doc__)
    keep_text = property(lambda self: self.mem.keep_text, doc=SigmaMem.keep_text.__doc__)
    state = property(lambda self: self.mem.state, doc=SigmaMem.state.__doc__)
    reads = property(lambda self: self.mem.reads, doc=SigmaMem.reads.__doc__)
    events = property(lambda self: self.mem.events, doc=SigmaMem.events.__doc__)

    async def __aenter__(self) -> AsyncSigmaMem:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
