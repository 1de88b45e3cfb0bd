"""The memory of a service, used as if it were here (extra ``[client]``).

`Client` and `AsyncClient` have the operations of the table, with the parameters of `SigmaMem`; both make the
same requests, one sends them and the other awaits them.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar
from urllib.parse import quote

from sigma_mem.answers.canon import Canon
from sigma_mem.errors import (
    ConflictError,
    InputError,
    SigmaMemError,
    StoreBusyError,
    StoreError,
    UnknownDecisionError,
)
from sigma_mem.events import Answer, Decision, Feedback
from sigma_mem.extras import require
from sigma_mem.files import replace_file
from sigma_mem.memory import Settings
from sigma_mem.operations import ASK, Awaited, Called, Operation
from sigma_mem.session import SigmaMem
from sigma_mem.session.panel import Panel
from sigma_mem.wire import SentPanel, from_plain, sent_arguments

P = ParamSpec("P")
T = TypeVar("T")
_KINDS: Mapping[str, type[SigmaMemError]] = {
    "not_found": UnknownDecisionError,
    "unknown_namespace": InputError,
    "conflict": ConflictError,
    "invalid_request": InputError,
    "store_busy": StoreBusyError,
    "store_unavailable": StoreError,
}


class ServiceError(SigmaMemError):
    """The service could not be reached, or refused; `status` is 0 if there was no response."""

    def __init__(self, message: str, status: int = 0, code: str = "") -> None:
        super().__init__(message)
        self.status, self.code = status, code


# --- requests ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ServiceCall(Generic[T]):
    """A request, and how to read its response."""

    verb: str
    path: str  # below the namespace
    read: Callable[[Any], T]
    body: Any = None
    query: Mapping[str, Any] | None = None
    is_file: bool = False  # whether the response is bytes to keep, and no JSON


def _of_operation(
    operation: Operation[Any, T], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> ServiceCall[T]:
    given = operation.arguments(args, kwargs)
    sent = sent_arguments(given)
    query, body = (None, sent) if operation.verb == "POST" else (sent, None)
    return ServiceCall(
        operation.verb, operation.path, lambda found: operation.read(found, given), body, query
    )


def _batch(items: Sequence[tuple[str | Decision, Mapping[str, object]]]) -> ServiceCall[list[Feedback | str]]:
    sent = [sent_arguments({"decision": decision, "labels": labels}) for decision, labels in items]

    def read(body: Any) -> list[Feedback | str]:
        return [
            from_plain(each["feedback"], Feedback) if "feedback" in each else each["error"]["message"]
            for each in body["results"]
        ]

    return ServiceCall("POST", "feedback/batch", read, {"items": sent})


def _export(path: str | os.PathLike[str]) -> ServiceCall[int]:
    def keep(content: bytes) -> int:
        lines = gzip.decompress(content)
        _keep_file(content if os.fspath(path).endswith(".gz") else lines, path)
        return int(json.loads(lines.splitlines()[-1])["lines"])

    return ServiceCall("GET", "export", keep, is_file=True)


def _backup(path: str | os.PathLike[str]) -> ServiceCall[None]:
    return ServiceCall("GET", "backup", lambda content: _keep_file(content, path), is_file=True)


def _keep_file(content: bytes, path: str | os.PathLike[str]) -> None:
    if Path(path).exists():
        raise InputError(f"{os.fspath(path)} is there already; expected the path of a new file")
    with replace_file(path, private=True) as temporary:
        temporary.write_bytes(content)


def _relation() -> ServiceCall[dict[str, Any]]:
    return ServiceCall("GET", "relation", dict)


def _description() -> ServiceCall[dict[str, Any]]:
    return ServiceCall("GET", "", dict)


def _made_of(**made: Any) -> ServiceCall[None]:
    return ServiceCall("PUT", "", lambda body: None, sent_arguments(made))


def _restored(file: str | os.PathLike[str]) -> ServiceCall[None]:
    return ServiceCall("POST", "restore", lambda body: None, Path(file).read_bytes())


def _beginning(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> ServiceCall[SentPanel]:
    sent = sent_arguments(ASK.arguments(args, kwargs))
    return ServiceCall(ASK.verb, ASK.path, lambda found: from_plain(found, SentPanel), sent)


def _addition(
    panel: SentPanel, canon: Canon, peer: str, answer: str | Answer | None
) -> ServiceCall[SentPanel]:
    sent = sent_arguments({"answers": {peer: answer}, "canon": canon})["answers"][peer]
    body = {"panel": panel.panel, "peer": peer, "answer": sent}
    return ServiceCall("POST", f"{ASK.path}/add", lambda found: from_plain(found, SentPanel), body)


# --- clients -----------------------------------------------------------------------------


class _Connection:
    """Where the service is, and how a request to it is made; the parameters are those of `Client`."""

    _kind: str

    def __init__(
        self,
        url: str,
        *,
        key: str | None = None,
        namespace: str = "default",
        timeout: float = 30.0,
        http: Any = None,
    ) -> None:
        self._library = require("httpx2", extra="client", purpose="the client of a service")
        self.url, self.name, self._timeout = url.rstrip("/"), namespace, timeout
        self._at = f"{self.url}/v1/memory/{quote(namespace, safe='')}"
        self._owns = http is None
        if http is None:
            key = os.environ.get("SIGMA_MEM_KEY") if key is None else key
            headers = {} if not key else {"authorization": f"Bearer {key}"}
            http = getattr(self._library, self._kind)(headers=headers, timeout=timeout)
        self._http = http

    def _request(self, call: ServiceCall[Any]) -> dict[str, Any]:
        url = f"{self._at}/{call.path}" if call.path else self._at
        request = {"method": call.verb, "url": url, "params": call.query or {}}
        if isinstance(call.body, bytes):
            return {**request, "content": call.body}
        return request if call.body is None else {**request, "json": call.body}

    def _failed(self, error: Exception) -> ServiceError:
        return ServiceError(
            f"cannot reach {self.url} ({type(error).__name__}: {error}); is the service running?"
        )

    def _read(self, call: ServiceCall[T], response: Any) -> T:
        if call.is_file and response.status_code == 200:
            return call.read(response.content)
        try:
            body = response.json()
        except ValueError:
            body = None
        if response.status_code >= 400 or body is None:
            raise _error(response.status_code, body, f"{self._at}/{call.path}")
        return call.read(body)


def _error(status: int, body: Any, path: str) -> SigmaMemError:
    """The exception that a memory in this process raises, for a response that is not a success."""
    detail = body.get("error") if isinstance(body, Mapping) else None
    if not isinstance(detail, Mapping):
        return ServiceError(
            f"{path} answered {status} without an error body; is this a sigma-mem service?", status
        )
    message, code = str(detail.get("message")), str(detail.get("code"))
    kind = _KINDS.get(code)
    return ServiceError(message, status, code) if kind is None else kind(message)


class _PanelView:
    """What a panel shows; see `sigma_mem.session.panel.Panel`."""

    def __init__(self, state: SentPanel, canon: Canon) -> None:
        self._state, self._canon = state, canon

    next = property(lambda self: self._state.next, doc="The peer to ask now; None once it is enough.")
    change = property(lambda self: self._state.change, doc="The chance that the rest change the answer.")
    answers = property(lambda self: self._state.answers, doc="The answers so far, by peer.")
    decision = property(lambda self: self._state.decision, doc="The outcome so far.")


class ServedPanel(_PanelView):
    """A panel in a service; made by `Client.ask`."""

    def __init__(self, state: SentPanel, canon: Canon, client: Client) -> None:
        super().__init__(state, canon)
        self._client = client

    def add(self, peer: str, answer: str | Answer | None) -> bool:
        """Take an answer (None if the peer failed); return whether it is enough."""
        self._state = self._client._send(_addition(self._state, self._canon, peer, answer))
        return self._state.next is None


class AsyncServedPanel(_PanelView):
    """A panel in a service; made by `AsyncClient.ask`."""

    def __init__(self, state: SentPanel, canon: Canon, client: AsyncClient) -> None:
        super().__init__(state, canon)
        self._client = client

    async def add(self, peer: str, answer: str | Answer | None) -> bool:
        """Take an answer (None if the peer failed); return whether it is enough."""
        self._state = await self._client._send(_addition(self._state, self._canon, peer, answer))
        return self._state.next is None


def _asked(
    method: Callable[Concatenate[SigmaMem, P], Panel],
) -> Callable[Concatenate[Client, P], ServedPanel]:
    @wraps(method)
    def ask(self: Client, /, *args: P.args, **kwargs: P.kwargs) -> ServedPanel:
        return ServedPanel(self._send(_beginning(args, kwargs)), kwargs.get("canon", "auto"), self)  # type: ignore[arg-type]

    return ask


def _asked_later(
    method: Callable[Concatenate[SigmaMem, P], Panel],
) -> Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, AsyncServedPanel]]:
    @wraps(method)
    async def ask(self: AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> AsyncServedPanel:
        begun = await self._send(_beginning(args, kwargs))
        return AsyncServedPanel(begun, kwargs.get("canon", "auto"), self)  # type: ignore[arg-type]

    return ask


# What the description of a namespace holds, as `SigmaMem` has it.
_DESCRIBED: Mapping[str, Callable[[Any], Any]] = {
    "peers": tuple,
    "events": int,
    "rank": int,
    "settings": lambda values: from_plain(values, Settings),
    "encoder": dict,
    "keep_text": bool,
}


def _described(name: str) -> Any:
    return property(lambda self: _DESCRIBED[name](self.describe()[name]), doc=getattr(SigmaMem, name).__doc__)


def _described_later(name: str) -> Callable[[AsyncClient], Coroutine[Any, Any, Any]]:
    async def found(self: AsyncClient) -> Any:
        return _DESCRIBED[name]((await self.describe())[name])

    found.__doc__ = getattr(SigmaMem, name).__doc__
    return found


class Client(_Connection, Called):
    """A memory in a service, with the methods of `SigmaMem`.

    What needs the process that holds the memory is not here: `state`, `reads`, `journal` and a center.
    Feedback has no `source`: that is the key's name.

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
    http : httpx2.Client or httpx2.AsyncClient, optional
        To send with, instead of one of its own; it brings its own headers.
    """

    _kind = "Client"

    def _call(self, operation: Operation[Any, T], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> T:
        return self._send(_of_operation(operation, args, kwargs))

    def _send(self, call: ServiceCall[T]) -> T:
        try:
            response = self._http.request(**self._request(call))
        except self._library.HTTPError as error:
            raise self._failed(error) from error
        return self._read(call, response)

    ask = _asked(SigmaMem.ask)
    peers, events, rank = _described("peers"), _described("events"), _described("rank")
    settings, encoder, keep_text = _described("settings"), _described("encoder"), _described("keep_text")

    def describe(self) -> Mapping[str, Any]:
        """What the namespace's memory is: peers, events, rank, encoder, settings."""
        return self._send(_description())

    def relation(self) -> Mapping[str, Any]:
        """G: its peers, its matrix, and the independent votes that an agreement of all is worth."""
        return self._send(_relation())

    def feedback_batch(
        self, items: Sequence[tuple[str | Decision, Mapping[str, object]]]
    ) -> list[Feedback | str]:
        """Record who was right in several events, with one wait for the disk.

        Each is taken or refused on its own: the result has, in order, what was taken or why not.
        """
        return self._send(_batch(items))

    def namespace(
        self,
        name: str,
        peers: Sequence[str] | None = None,
        *,
        rank: int | None = None,
        encoder: str | None = None,
        settings: Settings | None = None,
    ) -> Client:
        """Another memory of the same service; with peers, it is made if there is none."""
        other = Client(self.url, namespace=name, timeout=self._timeout, http=self._http)
        if peers is not None:
            other._send(_made_of(peers=peers, rank=rank, encoder=encoder, settings=settings))
        return other

    def export(self, path: str | os.PathLike[str]) -> int:
        """Write this memory as JSON lines, compressed for ``.gz``; return how many lines. Nothing is lost."""
        return self._send(_export(path))

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Copy the service's whole store, with all its namespaces, into a new file here."""
        self._send(_backup(path))

    def restore(self, file: str | os.PathLike[str], *, namespace: str) -> Client:
        """Make another memory of the same service from a file that `export` wrote."""
        other = self.namespace(namespace)
        other._send(_restored(file))
        return other

    def close(self) -> None:
        """Close the connections, if they are this client's own; idempotent."""
        if self._owns:
            self._http.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncClient(_Connection, Awaited):
    """`Client` for asyncio programs: every method is awaited, and so are `peers()`, `rank()` and the like."""

    _kind = "AsyncClient"

    async def _call(
        self, operation: Operation[Any, T], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> T:
        return await self._send(_of_operation(operation, args, kwargs))

    async def _send(self, call: ServiceCall[T]) -> T:
        try:
            response = await self._http.request(**self._request(call))
        except self._library.HTTPError as error:
            raise self._failed(error) from error
        return self._read(call, response)

    ask = _asked_later(SigmaMem.ask)
    peers, events, rank = _described_later("peers"), _described_later("events"), _described_later("rank")
    settings, encoder = _described_later("settings"), _described_later("encoder")
    keep_text = _described_later("keep_text")

    async def describe(self) -> Mapping[str, Any]:
        """What the namespace's memory is: peers, events, rank, encoder, settings."""
        return await self._send(_description())

    async def relation(self) -> Mapping[str, Any]:
        """`Client.relation`."""
        return await self._send(_relation())

    async def feedback_batch(
        self, items: Sequence[tuple[str | Decision, Mapping[str, object]]]
    ) -> list[Feedback | str]:
        """`Client.feedback_batch`."""
        return await self._send(_batch(items))

    async def namespace(
        self,
        name: str,
        peers: Sequence[str] | None = None,
        *,
        rank: int | None = None,
        encoder: str | None = None,
        settings: Settings | None = None,
    ) -> AsyncClient:
        """`Client.namespace`."""
        other = AsyncClient(self.url, namespace=name, timeout=self._timeout, http=self._http)
        if peers is not None:
            await other._send(_made_of(peers=peers, rank=rank, encoder=encoder, settings=settings))
        return other

    async def export(self, path: str | os.PathLike[str]) -> int:
        """`Client.export`."""
        return await self._send(_export(path))

    async def backup(self, path: str | os.PathLike[str]) -> None:
        """`Client.backup`."""
        await self._send(_backup(path))

    async def restore(self, file: str | os.PathLike[str], *, namespace: str) -> AsyncClient:
        """`Client.restore`."""
        other = await self.namespace(namespace)
        await other._send(_restored(file))
        return other

    async def close(self) -> None:
        """Close the connections, if they are this client's own; idempotent."""
        if self._owns:
            await self._http.aclose()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
