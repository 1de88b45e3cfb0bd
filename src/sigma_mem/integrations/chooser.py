"""What all adapters share: choose a peer, pass over one that fails, and take feedback by the event's ref."""

from __future__ import annotations

import asyncio
import sys
import time
from collections import OrderedDict
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any, ParamSpec, TypeVar

from sigma_mem.answers.chat import Question, question_text
from sigma_mem.client import Client
from sigma_mem.errors import ConflictError, InputError
from sigma_mem.events import Feedback
from sigma_mem.session import SigmaMem
from sigma_mem.session.checks import DECISION_ID
from sigma_mem.session.peers import peers_that_said_it

P = ParamSpec("P")
T = TypeVar("T")
Memory = SigmaMem | Client | str
REF = "sigma_ref"  # the callers' name of the event, if a framework carries data of theirs
_MOST = 10_000  # choices that are remembered, for runs of several calls
# What the libraries below the frameworks raise if a call did not come through.
_FAILURES = (
    "agent_framework.exceptions.ChatClientException",
    "openai.APIError",
    "anthropic.APIError",
    "httpx.HTTPError",
    "httpx2.HTTPError",
    "aiohttp.ClientError",
    "requests.RequestException",
    "google.genai.errors.APIError",
    "botocore.exceptions.BotoCoreError",
    "botocore.exceptions.ClientError",
    "ollama.ResponseError",
)


def failures() -> tuple[type[Exception], ...]:
    """Exceptions of a call that brought no answer: OSError, and those of the libraries loaded so far.

    >>> failures()[0]
    <class 'OSError'>
    """
    named = (name.rpartition(".") for name in _FAILURES)
    found = (getattr(sys.modules.get(module), kind, None) for module, _, kind in named)
    return (OSError, *(kind for kind in found if kind is not None))


@dataclass(frozen=True, slots=True)
class Pick:
    """Which peer to call, what feedback names the event by, and the ones to call if it fails, best first."""

    ref: str
    peer: str
    others: tuple[str, ...] = ()


class Chooser:
    """Choose → call → ref → feedback, over a memory in this process or in a service.

    Parameters
    ----------
    memory : SigmaMem, Client or str
        Several workers share a memory by the URL of a service, with the key in SIGMA_MEM_KEY.
    topic : str or sequence of str, optional
        Of every task.
    explore : bool
        Whether peers that are not the best so far are tried as well: feedback is about the chosen one only.
    rest : float
        Seconds for which a peer that failed is not chosen, if there are others.
    clock : callable
        Seconds.

    Examples
    --------
    >>> chooser = Chooser(SigmaMem(["ann", "bob"], encoder="hashed", seed=0), explore=False)
    >>> choice = chooser.choose("What is 2 + 2?", ["ann", "bob"], ref="trace-7")
    >>> choice.ref, choice.peer
    ('trace-7', 'ann')
    >>> def call(peer):
    ...     if peer == "ann":
    ...         raise ConnectionError("no route")  # no label, and bob is next
    ...     return "4"
    >>> chooser.call(choice, call)
    ('4', Pick(ref='trace-7', peer='bob', others=()))
    >>> dict(chooser.feedback("trace-7", True).labels)
    {'bob': 1.0}
    """

    def __init__(
        self,
        memory: Memory,
        *,
        topic: str | Sequence[str] | None = None,
        explore: bool = True,
        rest: float = 30.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not isinstance(memory, (SigmaMem, Client, str)):
            raise InputError(f"memory is {memory!r:.80}; expected a SigmaMem, a Client or a service's URL")
        self.memory = Client(memory) if isinstance(memory, str) else memory
        self._topic, self._explore, self._rest, self._clock = topic, explore, rest, clock
        self._until: dict[str, float] = {}  # by peer that failed
        self._made: OrderedDict[str, Pick] = OrderedDict()
        self._lock = Lock()
        self._quick: tuple[object, ...] = (self.choose, self.pass_over, self.served, self.alias)

    def choose(self, question: Question, among: Iterable[str], *, ref: str | None = None) -> Pick:
        """The peer to call of some, and the event's name: `ref`, or an id of the memory's own.

        The same ref again is the same event, which stays on its peer unless that failed.
        """
        allowed, now = list(among), self._clock()
        awake = [peer for peer in allowed if self._until.get(peer, 0.0) <= now] or allowed
        if ref is not None and (made := self._made.get(ref)) is not None:
            return made if made.peer in awake else self.pass_over(made) or made
        own = ref is not None and DECISION_ID.fullmatch(ref)  # of an event that another worker began
        given: dict[str, Any] = {"topic": self._topic, "explore": self._explore}
        given["after" if own else "ref"] = ref
        decision = self.memory.route(_text(question), among=awake, **given)
        if decision.peer is None:
            raise InputError(f"decision {decision.id!r} chose nobody; expected a route among {awake}")
        by_prob = sorted(allowed, key=lambda peer: (peer not in awake, -decision.probs[peer]))
        others = tuple(peer for peer in by_prob if peer != decision.peer)
        return self.keep(Pick(ref or decision.event, decision.peer, others))

    def pass_over(self, choice: Pick) -> Pick | None:
        """The next best peer after one that did not answer, which is not a label; None if nobody is left."""
        self._until[choice.peer] = self._clock() + self._rest
        if not choice.others:
            return None
        peer, *others = choice.others
        self.memory.served(choice.ref, peer, wait=False)
        return self.keep(replace(choice, peer=peer, others=tuple(others)))

    def served(self, choice: Pick, *, cost: float | None, latency: float | None) -> None:
        """Record what the call really cost, and how many seconds it took."""
        self.memory.served(choice.ref, choice.peer, cost=cost, latency=latency, wait=False)

    def alias(self, choice: Pick, name: str) -> None:
        """Let feedback name the event by another name as well, such as the id of its response.

        A cached response has the id of an earlier one, whose event keeps the name.
        """
        with suppress(ConflictError):
            self.memory.route(after=choice.ref, ref=name, among=[choice.peer])

    def feedback(
        self,
        ref: str,
        right: bool | float | Mapping[str, object],
        *,
        source: str | None = None,
        id: str | None = None,
        amend: bool = False,
    ) -> Feedback:
        """Record whether the answer was right: a bool, a score from 0 to 1, or labels by peer.

        A service takes the key's name as the source.
        """
        given: dict[str, Any] = {"id": id, "amend": amend}
        if source is not None:
            given["source"] = source
        if isinstance(right, Mapping):
            return self.memory.feedback(ref, right, **given)
        scores = dict.fromkeys(peers_that_said_it(self.memory.decision(ref)), float(right))
        return self.memory.feedback(ref, scores=scores, **given)

    def call(self, choice: Pick, call: Callable[[str], T]) -> tuple[T, Pick]:
        """What `call` gives for the chosen peer or, if that fails, for the next best one, with the choice.

        If nobody is left, the last error is raised.
        """
        while True:
            try:
                return call(choice.peer), choice
            except failures() as error:
                choice = _or_raise(self.pass_over(choice), error)

    async def acall(self, choice: Pick, call: Callable[[str], Awaitable[T]]) -> tuple[T, Pick]:
        """The same for coroutines."""
        while True:
            try:
                return await call(choice.peer), choice
            except failures() as error:
                choice = _or_raise(await self.later(self.pass_over, choice), error)

    async def astream(
        self, choice: Pick, call: Callable[[str], AsyncIterable[T]]
    ) -> AsyncIterator[tuple[T, Pick]]:
        """The same for streams; a peer that fails after its first piece is not passed over."""
        started = False
        while True:
            try:
                async for piece in call(choice.peer):
                    started = True
                    yield piece, choice
                return
            except failures() as error:
                following = None if started else await self.later(self.pass_over, choice)
                choice = _or_raise(following, error)

    async def later(self, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call something from a coroutine: in a thread if it waits for a service or a disk."""
        if isinstance(self.memory, SigmaMem) and call in self._quick:
            return call(*args, **kwargs)  # microseconds, which a thread would take as well
        return await asyncio.to_thread(call, *args, **kwargs)

    def keep(self, choice: Pick, *names: str) -> Pick:
        """Remember a choice by its ref, and by the ids of the tool calls that its answer made."""
        with self._lock:
            self._made |= dict.fromkeys((choice.ref, *names), choice)
            while len(self._made) > _MOST:
                self._made.popitem(last=False)
        return choice


def _or_raise(following: Pick | None, error: Exception) -> Pick:
    if following is None:
        raise error
    return following


def _text(question: Question) -> str:
    """A question as text; images and what tools gave have none, and must be answered all the same."""
    try:
        return question_text(question) or "no text"
    except InputError:
        return "no text"
