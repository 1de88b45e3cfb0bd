"""The same memory for asyncio programs: every call runs in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from sigma_mem.events import Answer, Decision, Feedback
from sigma_mem.session import Explanation, SigmaMem

__all__ = ["AsyncSigmaMem"]


class AsyncSigmaMem:
    """Wrap a SigmaMem, which is thread-safe, for use with await.

    Examples
    --------
    >>> import asyncio, numpy as np
    >>> async def main():
    ...     async with AsyncSigmaMem(SigmaMem(["a", "b"], rank=2)) as mem:
    ...         d = await mem.route(phi=np.array([1.0, 0.0]))
    ...         await mem.feedback(d.id, {"a": True})
    ...         return (await mem.route(phi=np.array([1.0, 0.0]))).peer
    >>> asyncio.run(main())
    'a'
    """

    def __init__(self, mem: SigmaMem) -> None:
        self.mem = mem

    async def route(self, question: str | None = None, **options: Any) -> Decision:
        """See `SigmaMem.route`."""
        return await asyncio.to_thread(self.mem.route, question, **options)

    async def vote(
        self, question: str | None, answers: Mapping[str, str | Answer | None], **options: Any
    ) -> Decision:
        """See `SigmaMem.vote`."""
        return await asyncio.to_thread(self.mem.vote, question, answers, **options)

    async def select(
        self, question: str, answers: Mapping[str, str | Answer | None], **options: Any
    ) -> Decision:
        """See `SigmaMem.select`."""
        return await asyncio.to_thread(self.mem.select, question, answers, **options)

    async def decide(
        self, question: str | None, answers: Mapping[str, str | Answer | None], **options: Any
    ) -> Decision:
        """See `SigmaMem.decide`."""
        return await asyncio.to_thread(self.mem.decide, question, answers, **options)

    async def feedback(self, decision: str, labels: Mapping[str, object], **options: Any) -> Feedback:
        """See `SigmaMem.feedback`."""
        return await asyncio.to_thread(self.mem.feedback, decision, labels, **options)

    async def explain(self, decision: str, **options: Any) -> Explanation:
        """See `SigmaMem.explain`."""
        return await asyncio.to_thread(self.mem.explain, decision, **options)

    async def close(self) -> None:
        """See `SigmaMem.close`."""
        await asyncio.to_thread(self.mem.close)

    async def __aenter__(self) -> AsyncSigmaMem:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
