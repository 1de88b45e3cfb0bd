"""Every method as a request and what to read from its response; nothing is sent here.

A method has the parameters of the method of `SigmaMem` that it stands for: `over_http` takes them from there.
Each stands once for both clients: a `Method` sends now on a `Client`, and on an `AsyncClient` is awaited.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from types import MethodType
from typing import TYPE_CHECKING, Any, ClassVar, Concatenate, Generic, ParamSpec, TypeVar, cast, overload

from sigma_mem.client import wire
from sigma_mem.client.wire import sent_arguments
from sigma_mem.events import Decision, Feedback
from sigma_mem.session import SigmaMem

if TYPE_CHECKING:
    from sigma_mem.client.client import AsyncClient, Client

P = ParamSpec("P")
T = TypeVar("T")
_PAGE = 1_000  # decisions in a response


@dataclass(frozen=True, slots=True)
class MemoryCall(Generic[T]):
    """A request, and how to read its response."""

    method: str
    path: str  # below the namespace
    read: Callable[[Any], T]
    body: Mapping[str, Any] | bytes | None = None
    query: Mapping[str, Any] | None = None
    is_file: bool = False  # whether the response is bytes to keep, and no JSON


class Method(Generic[P, T]):
    """A method of both clients, from a function that makes its call; `shown` has its parameters."""

    def __init__(
        self, call: Callable[Concatenate[Any, P], MemoryCall[T]], shown: Callable[..., Any] | None = None
    ) -> None:
        @wraps(shown or call)
        def send(client: Client, /, *args: P.args, **kwargs: P.kwargs) -> T:
            return client._send(call(client, *args, **kwargs))

        @wraps(shown or call)
        async def awaited(client: AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> T:
            return await client._send(call(client, *args, **kwargs))

        self._send, self._awaited = send, awaited

    @overload
    def __get__(self, client: None, kind: type) -> Callable[..., Any]: ...
    @overload
    def __get__(self, client: Client, kind: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, client: AsyncClient, kind: type) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, client: MemoryMethods | None, kind: type[MemoryMethods]) -> Callable[..., Any]:
        function: Callable[..., Any] = self._awaited if kind.awaited else self._send
        return function if client is None else MethodType(function, client)


def request_of(
    method: Callable[Concatenate[Any, P], Any],
    read: Callable[[Any], T],
    verb: str = "POST",
    path: str | None = None,
    change: Callable[[dict[str, Any]], dict[str, Any]] = dict,
) -> Callable[Concatenate[Any, P], MemoryCall[T]]:
    """The function that makes the request of a method, with the method's parameters.

    Parameters
    ----------
    method : callable
        Of `SigmaMem`; the path is its name, if left out.
    change : callable
        From the arguments to what is sent, where the service has other names for them.
    """
    signature, where = inspect.signature(method), path or method.__name__

    def call(client: Any, /, *args: P.args, **kwargs: P.kwargs) -> MemoryCall[T]:
        _, *given = signature.bind(client, *args, **kwargs).arguments.items()
        sent = change(sent_arguments(dict(given)))
        return MemoryCall(verb, where, read, *((sent, None) if verb == "POST" else (None, sent)))

    return call


def over_http(
    method: Callable[Concatenate[Any, P], T],
    read: Callable[[Any], T],
    verb: str = "POST",
    path: str | None = None,
    change: Callable[[dict[str, Any]], dict[str, Any]] = dict,
) -> Method[P, T]:
    """A method of `SigmaMem` as one of both clients; see `request_of`."""
    return Method(request_of(method, read, verb, path, change), method)


def of_peer(
    method: Callable[Concatenate[Any, P], T], read: Callable[[Any], Mapping[str, T]], verb: str, path: str
) -> Method[P, T]:
    """The same for a method about one peer, where the response has an entry for every peer."""
    request = request_of(method, read, verb, path)

    def call(client: Any, /, *args: P.args, **kwargs: P.kwargs) -> MemoryCall[T]:
        made = request(client, *args, **kwargs)
        peer = {**(made.query or {}), **cast(Mapping[str, Any], made.body or {})}["peer"]
        return MemoryCall(made.method, path, lambda body: read(body)[peer], made.body, made.query)

    return Method(call, method)


def _renamed(**names: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """The arguments under the service's names for them."""
    return lambda given: {names.get(name, name): value for name, value in given.items()}


def _always_waits(given: dict[str, Any]) -> dict[str, Any]:
    """The arguments without `wait`: the service answers once it is on disk."""
    given.pop("wait", None)
    return given


def _listed(given: dict[str, Any]) -> dict[str, Any]:
    """What to forget, with one decision as a list of one."""
    named = given.pop("decision", None)
    return given if named is None else {**given, "decisions": [named] if isinstance(named, str) else named}


class MemoryMethods:
    """The methods of a memory that are requests; the parameters are those of `SigmaMem`."""

    awaited: ClassVar[bool]

    encode = over_http(SigmaMem.encode, wire.read_phi)
    route = over_http(SigmaMem.route, wire.read_decision)
    vote = over_http(SigmaMem.vote, wire.read_decision)
    decide = over_http(SigmaMem.decide, wire.read_decision)
    effective_votes = over_http(SigmaMem.effective_votes, wire.read_votes)
    served = over_http(SigmaMem.served, wire.read_decision, change=_always_waits)
    set_price = of_peer(SigmaMem.set_price, wire.read_prices, "POST", "prices")
    prices = over_http(SigmaMem.prices, wire.read_prices, "GET")
    spent = over_http(SigmaMem.spent, wire.read_spent, "GET")
    revoke = over_http(SigmaMem.revoke, wire.read_lines)
    unrevoke = over_http(SigmaMem.unrevoke, wire.read_lines)
    sources = over_http(SigmaMem.sources, wire.read_sources, "GET")
    add_peer = over_http(SigmaMem.add_peer, wire.read_nothing, path="peers")
    remove_peer = over_http(SigmaMem.remove_peer, wire.read_nothing, "DELETE", "peers")
    reset_peer = over_http(SigmaMem.reset_peer, wire.read_nothing, path="peers/reset")
    rename_peer = over_http(SigmaMem.rename_peer, wire.read_nothing, path="peers/rename")
    replace_peer = over_http(SigmaMem.replace_peer, wire.read_nothing, path="peers/replace")
    decision = over_http(SigmaMem.decision, wire.read_decision, "GET")
    decisions = over_http(
        SigmaMem.decisions, wire.read_decisions, "GET", change=lambda q: {"last": _PAGE} | q
    )
    trust = over_http(SigmaMem.trust, wire.read_trust)
    table = over_http(SigmaMem.table, wire.read_table, "GET", change=_renamed(topics="topic"))
    history = of_peer(SigmaMem.history, wire.read_histories, "GET", "histories")
    histories = over_http(SigmaMem.histories, wire.read_histories, "GET", change=_renamed(peers="peer"))
    labels = over_http(SigmaMem.labels, wire.read_labels, "GET")
    explain = over_http(SigmaMem.explain, wire.read_explanation, "GET")
    advice = over_http(SigmaMem.advice, wire.read_advice, "GET")
    drift = over_http(SigmaMem.drift, wire.read_drift, "GET")
    forget = over_http(SigmaMem.forget, wire.read_forgotten, change=_listed)

    @Method
    def feedback(
        self,
        decision: str | Decision,
        labels: Mapping[str, object] | None = None,
        *,
        scores: Mapping[str, object] | None = None,
        id: str | None = None,
        amend: bool = False,
    ) -> MemoryCall[Feedback]:
        """Say who was right; see `SigmaMem.feedback`. The source is the API key that the client uses."""
        said = {"decision": decision, "labels": labels, "scores": scores, "id": id, "amend": amend}
        return MemoryCall("POST", "feedback", wire.read_feedback, sent_arguments(said))

    @Method
    def feedback_batch(
        self, items: Sequence[tuple[str | Decision, Mapping[str, object]]]
    ) -> MemoryCall[list[Feedback | str]]:
        """Say who was right in several events, with one wait for the disk.

        Each is taken or refused on its own: the result has, in order, what was taken or why not.
        """
        sent = [sent_arguments({"decision": decision, "labels": labels}) for decision, labels in items]
        return MemoryCall("POST", "feedback/batch", wire.read_batch, {"items": sent})

    @Method
    def export(self, path: str | os.PathLike[str]) -> MemoryCall[int]:
        """Write this memory as JSON lines, compressed for ``.gz``; return how many lines. Nothing is lost."""
        return MemoryCall("GET", "export", lambda content: wire.keep_lines(content, path), is_file=True)

    @Method
    def backup(self, path: str | os.PathLike[str]) -> MemoryCall[None]:
        """Copy the service's whole store, with all its namespaces, into a new file here."""
        return MemoryCall("GET", "backup", lambda content: wire.keep_file(content, path), is_file=True)

    @Method
    def describe(self) -> MemoryCall[Mapping[str, Any]]:
        """What the namespace's memory is: peers, events, rank, encoder, settings."""
        return MemoryCall("GET", "", dict)

    @Method
    def relation(self) -> MemoryCall[Mapping[str, Any]]:
        """G: its peers, its matrix, and the independent votes that an agreement of all is worth."""
        return MemoryCall("GET", "relation", dict)
