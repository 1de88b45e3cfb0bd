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
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, overload
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
from sigma_mem.files import refuse_taken, replace_file
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

    verb: str  # "" if there is nothing to send
    path: str  # below the namespace
    read: Callable[[Any], T]
    body: Any = None
    query: Mapping[str, Any] | None = None
    is_file: bool = False  # whether the response is bytes to keep, and no JSON
    namespace: str | None = None  # the client's own by default


class _Request(Generic[P, T]):
    """A method of both clients, written once: the request that one of them sends and the other awaits."""

    def __init__(self, make: Callable[Concatenate[Any, P], ServiceCall[T]]) -> None:
        self._make = make
        self.__doc__ = make.__doc__

    @overload
    def __get__(self, owner: None, kind: type) -> Callable[..., Any]: ...
    @overload
    def __get__(self, owner: Client | ServedPanel, kind: type) -> Callable[P, T]: ...
    @overload
    def __get__(
        self, owner: AsyncClient | AsyncServedPanel, kind: type
    ) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, owner: Any, kind: type) -> Any:
        if owner is None:
            return self._make

        @wraps(self._make)
        def call(*args: P.args, **kwargs: P.kwargs) -> Any:
            return owner._send(self._make(owner, *args, **kwargs))

        return call


def _keep_file(content: bytes, path: str | os.PathLike[str]) -> None:
    refuse_taken(Path(path))
    with replace_file(path, private=True) as temporary:
        temporary.write_bytes(content)


# --- clients -----------------------------------------------------------------------------


class _Connection:
    """The address of a service, and every request to it; the parameters are those of `Client`."""

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
        self._owns = http is None
        if http is None:
            key = os.environ.get("SIGMA_MEM_KEY") if key is None else key
            headers = {} if not key else {"authorization": f"Bearer {key}"}
            http = getattr(self._library, self._kind)(headers=headers, timeout=timeout)
        self._http = http

    @_Request
    def describe(self) -> ServiceCall[Mapping[str, Any]]:
        """What the namespace's memory is: peers, events, rank, encoder, settings."""
        return ServiceCall("GET", "", dict)

    @_Request
    def relation(self) -> ServiceCall[Mapping[str, Any]]:
        """G: its peers, its matrix, and the independent votes that an agreement of all is worth."""
        return ServiceCall("GET", "relation", dict)

    @_Request
    def feedback_batch(
        self, items: Sequence[tuple[str | Decision, Mapping[str, object]]]
    ) -> ServiceCall[list[Feedback | str]]:
        """Record which peers were right in several events, with one wait for the disk.

        Each is taken or refused on its own: the result has, in order, what was taken or why not.
        """
        sent = [sent_arguments({"decision": decision, "labels": labels}) for decision, labels in items]

        def read(body: Any) -> list[Feedback | str]:
            return [
                from_plain(each["feedback"], Feedback) if "feedback" in each else each["error"]["message"]
                for each in body["results"]
            ]

        return ServiceCall("POST", "feedback/batch", read, {"items": sent})

    @_Request
    def namespace(
        self,
        name: str,
        peers: Sequence[str] | None = None,
        *,
        rank: int | None = None,
        encoder: str | None = None,
        settings: Settings | None = None,
    ) -> ServiceCall[Self]:
        """Another memory of the same service; with peers, it is made if there is none."""
        made = sent_arguments({"peers": peers, "rank": rank, "encoder": encoder, "settings": settings})
        verb = "" if peers is None else "PUT"
        return ServiceCall(verb, "", lambda body: self._beside(name), made, namespace=name)

    @_Request
    def export(self, path: str | os.PathLike[str]) -> ServiceCall[int]:
        """Write this memory as JSON lines, compressed for ``.gz``; return how many lines. Nothing is lost."""

        def keep(content: bytes) -> int:
            lines = gzip.decompress(content)
            _keep_file(content if os.fspath(path).endswith(".gz") else lines, path)
            return int(json.loads(lines.splitlines()[-1])["lines"])

        return ServiceCall("GET", "export", keep, is_file=True)

    @_Request
    def backup(self, path: str | os.PathLike[str]) -> ServiceCall[None]:
        """Copy the service's whole store, with all its namespaces, into a new file here."""
        return ServiceCall("GET", "backup", lambda content: _keep_file(content, path), is_file=True)

    @_Request
    def restore(self, file: str | os.PathLike[str], *, namespace: str) -> ServiceCall[Self]:
        """Make another memory of the same service from a file that `export` wrote."""
        content = Path(file).read_bytes()
        return ServiceCall(
            "POST", "restore", lambda body: self._beside(namespace), content, namespace=namespace
        )

    def _beside(self, namespace: str) -> Self:
        return type(self)(self.url, namespace=namespace, timeout=self._timeout, http=self._http)

    def _of_operation(
        self, operation: Operation[Any, T], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> ServiceCall[T]:
        given = operation.arguments(args, kwargs)
        sent = sent_arguments(given)
        query, body = (None, sent) if operation.verb == "POST" else (sent, None)
        return ServiceCall(
            operation.verb, operation.path, lambda found: operation.read(found, given), body, query
        )

    def _url(self, call: ServiceCall[Any]) -> str:
        at = f"{self.url}/v1/memory/{quote(call.namespace or self.name, safe='')}"
        return f"{at}/{call.path}" if call.path else at

    def _request(self, call: ServiceCall[Any]) -> dict[str, Any]:
        request = {"method": call.verb, "url": self._url(call), "params": call.query or {}}
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
            raise _error(response.status_code, body, self._url(call))
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


class _ServedPanel:
    """A panel in a service; see `sigma_mem.session.panel.Panel`."""

    def __init__(self, state: SentPanel, canon: Canon, client: Any) -> None:
        self._state, self._canon, self._send = state, canon, client._send

    next = property(lambda self: self._state.next, doc="The peer to ask now; None once it is enough.")
    change = property(lambda self: self._state.change, doc="The chance that the rest change the answer.")
    answers = property(lambda self: self._state.answers, doc="The answers so far, by peer.")
    decision = property(lambda self: self._state.decision, doc="The outcome so far.")

    @_Request
    def add(self, peer: str, answer: str | Answer | None) -> ServiceCall[bool]:
        """Take an answer (None if the peer failed); return whether it is enough."""
        sent = sent_arguments({"answers": {peer: answer}, "canon": self._canon})["answers"][peer]

        def read(found: Any) -> bool:
            self._state = from_plain(found, SentPanel)
            return self._state.next is None

        body = {"panel": self._state.panel, "peer": peer, "answer": sent}
        return ServiceCall("POST", f"{ASK.path}/add", read, body)


class ServedPanel(_ServedPanel):
    """A panel in a service; made by `Client.ask`."""


class AsyncServedPanel(_ServedPanel):
    """A panel in a service, whose `add` is awaited; made by `AsyncClient.ask`."""


def _asked(method: Callable[Concatenate[SigmaMem, P], Panel], kind: Callable[..., T]) -> _Request[P, T]:
    @wraps(method)
    def ask(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> ServiceCall[T]:
        def read(found: Any) -> T:
            return kind(from_plain(found, SentPanel), kwargs.get("canon", "auto"), self)

        return ServiceCall(ASK.verb, ASK.path, read, sent_arguments(ASK.arguments(args, kwargs)))

    return _Request(ask)


# What the description of a namespace holds, as `SigmaMem` has it.
_DESCRIBED: Mapping[str, Callable[[Any], Any]] = {
    "peers": tuple,
    "events": int,
    "rank": int,
    "settings": lambda values: from_plain(values, Settings),
    "encoder": dict,
    "keep_text": bool,
}


def _described(name: str) -> _Request[[], Any]:
    def ask(self: Any) -> ServiceCall[Any]:
        return ServiceCall("GET", "", lambda body: _DESCRIBED[name](body[name]))

    ask.__doc__ = getattr(SigmaMem, name).__doc__
    return _Request(ask)


def _property(name: str) -> Any:
    ask = _described(name)
    return property(lambda self: self._send(ask._make(self)), doc=ask.__doc__)


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
        A client to send with, instead of one of its own. It brings its own headers.
    """

    _kind = "Client"

    def _call(self, operation: Operation[Any, T], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> T:
        return self._send(self._of_operation(operation, args, kwargs))

    def _send(self, call: ServiceCall[T]) -> T:
        if not call.verb:
            return call.read(None)
        try:
            response = self._http.request(**self._request(call))
        except self._library.HTTPError as error:
            raise self._failed(error) from error
        return self._read(call, response)

    ask = _asked(SigmaMem.ask, ServedPanel)
    peers, events, rank = _property("peers"), _property("events"), _property("rank")
    settings, encoder, keep_text = _property("settings"), _property("encoder"), _property("keep_text")

    def close(self) -> None:
        """Close the connections, if they are this client's own; idempotent."""
        if self._owns:
            self._http.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncClient(_Connection, Awaited):
    """`Client` for asyncio programs: every method is awaited, also `peers()`, `rank()` and so on."""

    _kind = "AsyncClient"

    async def _call(
        self, operation: Operation[Any, T], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> T:
        return await self._send(self._of_operation(operation, args, kwargs))

    async def _send(self, call: ServiceCall[T]) -> T:
        if not call.verb:
            return call.read(None)
        try:
            response = await self._http.request(**self._request(call))
        except self._library.HTTPError as error:
            raise self._failed(error) from error
        return self._read(call, response)

    ask = _asked(SigmaMem.ask, AsyncServedPanel)
    peers, events, rank = _described("peers"), _described("events"), _described("rank")
    settings, encoder, keep_text = _described("settings"), _described("encoder"), _described("keep_text")

    async def close(self) -> None:
        """Close the connections, if they are this client's own; idempotent."""
        if self._owns:
            await self._http.aclose()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
