"""`Client` and `AsyncClient`: the methods of `SigmaMem`, over HTTP."""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import wraps
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar
from urllib.parse import quote

from sigma_mem.answers.canon import Canon
from sigma_mem.client.calls import MemoryCall, MemoryMethods, request_of
from sigma_mem.client.errors import ServiceError, error_from
from sigma_mem.client.wire import PanelState, read_nothing, read_panel, read_settings, sent_arguments
from sigma_mem.events import Answer, Decision
from sigma_mem.extras import require
from sigma_mem.memory import Settings
from sigma_mem.session import SigmaMem
from sigma_mem.session.panel import Panel

P = ParamSpec("P")
T = TypeVar("T")


class _Connection(MemoryMethods):
    """Where the service is, and how a request to it is made."""

    def __init__(
        self, url: str, key: str | None, namespace: str, timeout: float, http: Any, kind: str
    ) -> None:
        self._library = require("httpx2", extra="client", purpose="the client of a service")
        self.url, self.name = url.rstrip("/"), namespace
        self._at = f"{self.url}/v1/memory/{quote(namespace, safe='')}"
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
        url = f"{self._at}/{call.path}" if call.path else self._at
        request = {"method": call.method, "url": url, "params": query}
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
            raise error_from(response.status_code, body, f"{self._at}/{call.path}")
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

    def _adding(self, peer: str, answer: str | Answer | None) -> MemoryCall[PanelState]:
        sent = sent_arguments({"answers": {peer: answer}, "canon": self._canon})["answers"][peer]
        body = {"panel": self._state.panel, "peer": peer, "answer": sent}
        return MemoryCall("POST", "ask/add", read_panel, body)


class ServedPanel(_PanelView):
    """A panel in a service; made by `Client.ask`."""

    def __init__(self, state: PanelState, canon: Canon, client: Client) -> None:
        super().__init__(state, canon)
        self._client = client

    def add(self, peer: str, answer: str | Answer | None) -> bool:
        """Take an answer (None where the peer failed); return whether it is enough."""
        self._state = self._client._send(self._adding(peer, answer))
        return self.next is None


class AsyncServedPanel(_PanelView):
    """A panel in a service; made by `AsyncClient.ask`."""

    def __init__(self, state: PanelState, canon: Canon, client: AsyncClient) -> None:
        super().__init__(state, canon)
        self._client = client

    async def add(self, peer: str, answer: str | Answer | None) -> bool:
        """Take an answer (None where the peer failed); return whether it is enough."""
        self._state = await self._client._send(self._adding(peer, answer))
        return self.next is None


def _asked(
    method: Callable[Concatenate[SigmaMem, P], Panel],
) -> Callable[Concatenate[Client, P], ServedPanel]:
    """`SigmaMem.ask`, with the same parameters, for a panel in the service."""
    begin = request_of(method, read_panel)

    @wraps(method)
    def ask(self: Client, /, *args: P.args, **kwargs: P.kwargs) -> ServedPanel:
        return ServedPanel(self._send(begin(self, *args, **kwargs)), _canon_of(kwargs), self)

    return ask


def _asked_later(
    method: Callable[Concatenate[SigmaMem, P], Panel],
) -> Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, AsyncServedPanel]]:
    """The same, awaited."""
    begin = request_of(method, read_panel)

    @wraps(method)
    async def ask(self: AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> AsyncServedPanel:
        return AsyncServedPanel(await self._send(begin(self, *args, **kwargs)), _canon_of(kwargs), self)

    return ask


def _canon_of(options: Mapping[str, Any]) -> Canon:
    canon: Canon = options.get("canon", "auto")
    return canon


def _made_of(
    peers: Sequence[str], rank: int | None, encoder: str | None, settings: Settings | None
) -> MemoryCall[None]:
    """Make the namespace."""
    made = {"peers": peers, "rank": rank, "encoder": encoder, "settings": settings}
    return MemoryCall("PUT", "", read_nothing, sent_arguments(made))


def _restored(file: str | os.PathLike[str]) -> MemoryCall[None]:
    """Make the namespace from a file that `export` wrote."""
    return MemoryCall("POST", "restore", read_nothing, Path(file).read_bytes())


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

    awaited = False

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

    ask = _asked(SigmaMem.ask)

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
        return read_settings(self.describe())

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
            other._send(_made_of(peers, rank, encoder, settings))
        return other

    def restore(self, file: str | os.PathLike[str], *, namespace: str) -> Client:
        """Make another memory of the same service from a file that `export` wrote."""
        other = Client(self.url, namespace=namespace, timeout=self._timeout, http=self._http)
        other._send(_restored(file))
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

    awaited = True

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

    ask = _asked_later(SigmaMem.ask)

    async def peers(self) -> tuple[str, ...]:
        """The pool, in order."""
        return tuple((await self.describe())["peers"])

    async def rank(self) -> int:
        """Dimension of φ."""
        return int((await self.describe())["rank"])

    async def settings(self) -> Settings:
        """As recorded with the memory."""
        return read_settings(await self.describe())

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
            await other._send(_made_of(peers, rank, encoder, settings))
        return other

    async def restore(self, file: str | os.PathLike[str], *, namespace: str) -> AsyncClient:
        """Make another memory of the same service from a file that `export` wrote."""
        other = AsyncClient(self.url, namespace=namespace, timeout=self._timeout, http=self._http)
        await other._send(_restored(file))
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
