"""`Client` and `AsyncClient`: the methods of `SigmaMem`, over HTTP."""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from numpy.typing import ArrayLike

from sigma_mem.answers.canon import Canon
from sigma_mem.answers.chat import Question
from sigma_mem.client.calls import MemoryCall, MemoryCalls, PanelState
from sigma_mem.client.errors import ServiceError, error_from
from sigma_mem.events import Answer, Decision
from sigma_mem.extras import require
from sigma_mem.memory import Settings
from sigma_mem.session.topics import Topic

P = ParamSpec("P")
T = TypeVar("T")


def _sent(
    method: Callable[Concatenate[MemoryCalls, P], MemoryCall[T]],
) -> Callable[Concatenate[Client, P], T]:
    """The method of `MemoryCalls`, with the same parameters, sent."""

    @wraps(method)
    def send(self: Client, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._send(method(self._calls, *args, **kwargs))

    return send


def _awaited(
    method: Callable[Concatenate[MemoryCalls, P], MemoryCall[T]],
) -> Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, T]]:
    """The same, awaited."""

    @wraps(method)
    async def send(self: AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._send(method(self._calls, *args, **kwargs))

    return send


class _Connection:
    """Where the service is, and how a request to it is made."""

    def __init__(
        self, url: str, key: str | None, namespace: str, timeout: float, http: Any, kind: str
    ) -> None:
        self._library = require("httpx2", extra="client", purpose="the client of a service")
        self.url, self.name = url.rstrip("/"), namespace
        self._calls = MemoryCalls(namespace)
        self._timeout = timeout
        self._owns = http is None
        if http is None:
            key = os.environ.get("SIGMA_MEM_KEY") if key is None else key
            http = getattr(self._library, kind)(
                headers={} if not key else {"authorization": f"Bearer {key}"}, timeout=timeout
            )
        self._http = http

    def _request(self, call: MemoryCall[Any]) -> dict[str, Any]:
        query = {key: value for key, value in (call.query or {}).items() if value is not None}
        request = {"method": call.method, "url": f"{self.url}/v1/memory{call.path}", "params": query}
        if isinstance(call.body, bytes):
            return {**request, "content": call.body}
        return request if call.body is None else {**request, "json": call.body}

    def _failed(self, error: Exception) -> ServiceError:
        return ServiceError(
            f"cannot reach {self.url} ({type(error).__name__}: {error}); is the service running?"
        )

    def _read(self, call: MemoryCall[T], response: Any) -> T:
        if call.is_file and response.status_code == 200:
            return call.read(response.content)
        try:
            body = response.json()
        except ValueError:
            body = None
        if response.status_code >= 400 or body is None:
            raise error_from(response.status_code, body, call.path)
        return call.read(body)


class _PanelView:
    """What a panel shows: next, change, answers, decision; see `sigma_mem.session.panel.Panel`."""

    def __init__(self, state: PanelState, canon: Canon) -> None:
        self._state, self._canon = state, canon

    @property
    def next(self) -> str | None:
        """The peer to ask now; None once the answer is sure enough or everyone was asked."""
        return self._state.next

    @property
    def change(self) -> float:
        """The chance that the peers not asked would change the answer."""
        return self._state.change

    @property
    def answers(self) -> Mapping[str, Answer]:
        """The answers so far, by peer."""
        return self._state.answers

    @property
    def decision(self) -> Decision:
        """The outcome so far."""
        return self._state.decision


class ServedPanel(_PanelView):
    """A panel in a service; made by `Client.ask`."""

    def __init__(self, state: PanelState, canon: Canon, client: Client) -> None:
        super().__init__(state, canon)
        self._client = client

    def add(self, peer: str, answer: str | Answer | None) -> bool:
        """Take an answer (None where the peer failed); return whether it is enough."""
        calls = self._client._calls
        self._state = self._client._send(calls.add(self._state.panel, peer, answer, self._canon))
        return self.next is None


class AsyncServedPanel(_PanelView):
    """A panel in a service; made by `AsyncClient.ask`."""

    def __init__(self, state: PanelState, canon: Canon, client: AsyncClient) -> None:
        super().__init__(state, canon)
        self._client = client

    async def add(self, peer: str, answer: str | Answer | None) -> bool:
        """Take an answer (None where the peer failed); return whether it is enough."""
        calls = self._client._calls
        self._state = await self._client._send(calls.add(self._state.panel, peer, answer, self._canon))
        return self.next is None


class Client(_Connection):
    """A memory in a service, with the methods of `SigmaMem`.

    What needs the process that holds the memory is not here: `state`, `reads`, `replayed`, `snapshot` and
    `select`. Feedback has no `source`: that is the key's name.

    Parameters
    ----------
    url : str
        Of the service, such as ``http://127.0.0.1:8321``.
    key : str, optional
        API key; the environment variable SIGMA_MEM_KEY by default.
    namespace : str
        Which memory.
    timeout : float
        Seconds for one request.
    http : httpx2.Client, optional
        To send with, in place of one of its own; it brings its own headers.
    """

    def __init__(
        self,
        url: str,
        *,
        key: str | None = None,
        namespace: str = "default",
        timeout: float = 30.0,
        http: Any = None,
    ) -> None:
        super().__init__(url, key, namespace, timeout, http, "Client")

    encode = _sent(MemoryCalls.encode)
    route = _sent(MemoryCalls.route)
    vote = _sent(MemoryCalls.vote)
    decide = _sent(MemoryCalls.decide)
    served = _sent(MemoryCalls.served)
    set_price = _sent(MemoryCalls.set_price)
    prices = _sent(MemoryCalls.prices)
    spent = _sent(MemoryCalls.spent)
    effective_votes = _sent(MemoryCalls.effective_votes)
    feedback = _sent(MemoryCalls.feedback)
    feedback_batch = _sent(MemoryCalls.feedback_batch)
    revoke = _sent(MemoryCalls.revoke)
    unrevoke = _sent(MemoryCalls.unrevoke)
    sources = _sent(MemoryCalls.sources)
    add_peer = _sent(MemoryCalls.add_peer)
    remove_peer = _sent(MemoryCalls.remove_peer)
    decision = _sent(MemoryCalls.decision)
    decisions = _sent(MemoryCalls.decisions)
    labels = _sent(MemoryCalls.labels)
    trust = _sent(MemoryCalls.trust)
    table = _sent(MemoryCalls.table)
    history = _sent(MemoryCalls.history)
    histories = _sent(MemoryCalls.histories)
    explain = _sent(MemoryCalls.explain)
    drift = _sent(MemoryCalls.drift)
    reset_peer = _sent(MemoryCalls.reset_peer)
    rename_peer = _sent(MemoryCalls.rename_peer)
    replace_peer = _sent(MemoryCalls.replace_peer)
    advice = _sent(MemoryCalls.advice)
    forget = _sent(MemoryCalls.forget)
    export = _sent(MemoryCalls.export)
    backup = _sent(MemoryCalls.backup)
    describe = _sent(MemoryCalls.describe)
    relation = _sent(MemoryCalls.relation)

    def ask(
        self,
        question: Question | None = None,
        *,
        phi: ArrayLike | None = None,
        topic: Topic | None = None,
        explore: bool = False,
        canon: Canon = "auto",
        among: Sequence[str] | None = None,
        after: str | Decision | None = None,
        ref: str | None = None,
        change: float = 0.2,
        confidence: float | None = None,
        calls: int | None = None,
    ) -> ServedPanel:
        """Ask peers one after the other, until the rest hardly change the answer; see `SigmaMem.ask`."""
        begun = self._send(
            self._calls.begin(
                question,
                phi=phi,
                topic=topic,
                explore=explore,
                canon=canon,
                among=among,
                after=after,
                ref=ref,
                change=change,
                confidence=confidence,
                calls=calls,
            )
        )
        return ServedPanel(begun, canon, self)

    @property
    def peers(self) -> tuple[str, ...]:
        """The pool, in order."""
        return tuple(self.describe()["peers"])

    @property
    def rank(self) -> int:
        """Dimension of φ."""
        return int(self.describe()["rank"])

    @property
    def settings(self) -> Settings:
        """As recorded with the memory."""
        return settings_of(self.describe())

    @property
    def encoder(self) -> Mapping[str, str]:
        """Name and version of the encoder that the memory was made with."""
        return dict(self.describe()["encoder"])

    @property
    def keep_text(self) -> bool:
        """Whether questions and answers are kept in the ledger."""
        return bool(self.describe()["keep_text"])

    @property
    def events(self) -> int:
        """How many events were decided."""
        return int(self.describe()["events"])

    def namespace(
        self,
        name: str,
        peers: Sequence[str] | None = None,
        *,
        rank: int | None = None,
        encoder: str | None = None,
        settings: Settings | None = None,
    ) -> Client:
        """Another memory of the same service; with peers, it is made where there is none."""
        other = Client(self.url, namespace=name, timeout=self._timeout, http=self._http)
        if peers is not None:
            other._send(other._calls.create(peers, rank, encoder, settings))
        return other

    def restore(self, file: str | os.PathLike[str], *, namespace: str) -> Client:
        """Make another memory of the same service from a file that `export` wrote."""
        other = Client(self.url, namespace=namespace, timeout=self._timeout, http=self._http)
        other._send(other._calls.restored(file))
        return other

    def close(self) -> None:
        """Close the connections, where they are this client's own; idempotent."""
        if self._owns:
            self._http.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _send(self, call: MemoryCall[T]) -> T:
        try:
            response = self._http.request(**self._request(call))
        except self._library.HTTPError as error:
            raise self._failed(error) from error
        return self._read(call, response)


class AsyncClient(_Connection):
    """`Client` for asyncio programs: every method is awaited, and so are `peers()`, `rank()` and the like."""

    def __init__(
        self,
        url: str,
        *,
        key: str | None = None,
        namespace: str = "default",
        timeout: float = 30.0,
        http: Any = None,
    ) -> None:
        super().__init__(url, key, namespace, timeout, http, "AsyncClient")

    encode = _awaited(MemoryCalls.encode)
    route = _awaited(MemoryCalls.route)
    vote = _awaited(MemoryCalls.vote)
    decide = _awaited(MemoryCalls.decide)
    served = _awaited(MemoryCalls.served)
    set_price = _awaited(MemoryCalls.set_price)
    prices = _awaited(MemoryCalls.prices)
    spent = _awaited(MemoryCalls.spent)
    effective_votes = _awaited(MemoryCalls.effective_votes)
    feedback = _awaited(MemoryCalls.feedback)
    feedback_batch = _awaited(MemoryCalls.feedback_batch)
    revoke = _awaited(MemoryCalls.revoke)
    unrevoke = _awaited(MemoryCalls.unrevoke)
    sources = _awaited(MemoryCalls.sources)
    add_peer = _awaited(MemoryCalls.add_peer)
    remove_peer = _awaited(MemoryCalls.remove_peer)
    decision = _awaited(MemoryCalls.decision)
    decisions = _awaited(MemoryCalls.decisions)
    labels = _awaited(MemoryCalls.labels)
    trust = _awaited(MemoryCalls.trust)
    table = _awaited(MemoryCalls.table)
    history = _awaited(MemoryCalls.history)
    histories = _awaited(MemoryCalls.histories)
    explain = _awaited(MemoryCalls.explain)
    drift = _awaited(MemoryCalls.drift)
    reset_peer = _awaited(MemoryCalls.reset_peer)
    rename_peer = _awaited(MemoryCalls.rename_peer)
    replace_peer = _awaited(MemoryCalls.replace_peer)
    advice = _awaited(MemoryCalls.advice)
    forget = _awaited(MemoryCalls.forget)
    export = _awaited(MemoryCalls.export)
    backup = _awaited(MemoryCalls.backup)
    describe = _awaited(MemoryCalls.describe)
    relation = _awaited(MemoryCalls.relation)

    async def ask(
        self,
        question: Question | None = None,
        *,
        phi: ArrayLike | None = None,
        topic: Topic | None = None,
        explore: bool = False,
        canon: Canon = "auto",
        among: Sequence[str] | None = None,
        after: str | Decision | None = None,
        ref: str | None = None,
        change: float = 0.2,
        confidence: float | None = None,
        calls: int | None = None,
    ) -> AsyncServedPanel:
        """Ask peers one after the other, until the rest hardly change the answer; see `SigmaMem.ask`."""
        begun = await self._send(
            self._calls.begin(
                question,
                phi=phi,
                topic=topic,
                explore=explore,
                canon=canon,
                among=among,
                after=after,
                ref=ref,
                change=change,
                confidence=confidence,
                calls=calls,
            )
        )
        return AsyncServedPanel(begun, canon, self)

    async def peers(self) -> tuple[str, ...]:
        """The pool, in order."""
        return tuple((await self.describe())["peers"])

    async def rank(self) -> int:
        """Dimension of φ."""
        return int((await self.describe())["rank"])

    async def settings(self) -> Settings:
        """As recorded with the memory."""
        return settings_of(await self.describe())

    async def encoder(self) -> Mapping[str, str]:
        """Name and version of the encoder that the memory was made with."""
        return dict((await self.describe())["encoder"])

    async def keep_text(self) -> bool:
        """Whether questions and answers are kept in the ledger."""
        return bool((await self.describe())["keep_text"])

    async def events(self) -> int:
        """How many events were decided."""
        return int((await self.describe())["events"])

    async def namespace(
        self,
        name: str,
        peers: Sequence[str] | None = None,
        *,
        rank: int | None = None,
        encoder: str | None = None,
        settings: Settings | None = None,
    ) -> AsyncClient:
        """Another memory of the same service; with peers, it is made where there is none."""
        other = AsyncClient(self.url, namespace=name, timeout=self._timeout, http=self._http)
        if peers is not None:
            await other._send(other._calls.create(peers, rank, encoder, settings))
        return other

    async def restore(self, file: str | os.PathLike[str], *, namespace: str) -> AsyncClient:
        """Make another memory of the same service from a file that `export` wrote."""
        other = AsyncClient(self.url, namespace=namespace, timeout=self._timeout, http=self._http)
        await other._send(other._calls.restored(file))
        return other

    async def close(self) -> None:
        """Close the connections, where they are this client's own; idempotent."""
        if self._owns:
            await self._http.aclose()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _send(self, call: MemoryCall[T]) -> T:
        try:
            response = await self._http.request(**self._request(call))
        except self._library.HTTPError as error:
            raise self._failed(error) from error
        return self._read(call, response)


def settings_of(description: Mapping[str, Any]) -> Settings:
    """Settings from a namespace's description."""
    values: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in cast(Mapping[str, Any], description["settings"]).items()
    }
    return Settings(**values)
