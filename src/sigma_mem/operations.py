"""One table of what can be done with a memory: the async wrapper, HTTP, both clients and MCP follow from it.

An `Operation` names a method of `SigmaMem`, whose signature and docstring are its parameters, and adds what
the method does not define: the role that a caller needs, verb and path, and how a response holds the result.
The table is the class `Operations`; its attributes are methods of every class that derives from it and
defines how a call is made (`Called`, `Awaited`), with the signatures of `SigmaMem`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Coroutine, Mapping
from functools import cached_property, wraps
from types import MappingProxyType, MethodType
from typing import Any, Concatenate, Generic, Literal, ParamSpec, TypeVar, get_type_hints, overload

from sigma_mem.errors import InputError
from sigma_mem.session import History, SigmaMem
from sigma_mem.wire import SentPanel, described_explanation, from_plain, sent_panel

P = ParamSpec("P")
T = TypeVar("T")
Role = Literal["read", "write", "admin"]
Verb = Literal["GET", "POST", "DELETE"]


class Operation(Generic[P, T]):
    """A method of a memory that others call for their users.

    Parameters
    ----------
    method : callable
        Of `SigmaMem`.
    role : {"read", "write", "admin"}
        What a key must be allowed in the memory's namespace.
    verb, path : str
        Of the HTTP request; the path, below the namespace, is the method's name if left out.
    result : str, optional
        The name under which a response holds the result; None if it is an object itself.
    returns : type, optional
        Of the result in a response; the method's own by default.
    write : callable, optional
        From the result to what is sent, if its fields alone are not enough.
    quick : bool
        Whether it takes microseconds and waits for no disk.
    kept : tuple of str
        Parameters that the service sets itself.
    noted : tuple of str, optional
        What goes into the audit log: attributes of the result or arguments; None for no entry.
    tool : bool
        Whether agents get it as a tool of the Model Context Protocol.
    example : mapping
        Arguments of a call that works in a memory of gemma, phi and coder after those before it in the table.
    """

    def __init__(
        self,
        method: Callable[Concatenate[SigmaMem, P], T],
        role: Role,
        verb: Verb = "POST",
        path: str | None = None,
        *,
        result: str | None = None,
        returns: Any = None,
        write: Callable[[Any], Any] | None = None,
        quick: bool = False,
        kept: tuple[str, ...] = (),
        noted: tuple[str, ...] | None = None,
        tool: bool = False,
        example: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self.method, self.role, self.verb = method, role, verb
        self.name = method.__name__
        self.path = self.name if path is None else path
        self.result, self.write = result, write
        self.quick, self.kept, self.noted, self.tool = quick, kept, noted, tool
        self.example = example
        self._returns = returns

        @wraps(method)
        def call(caller: Any, /, *args: P.args, **kwargs: P.kwargs) -> Any:
            return caller._call(self, args, kwargs)

        @wraps(method)
        async def awaited(caller: Any, /, *args: P.args, **kwargs: P.kwargs) -> Any:
            return await caller._call(self, args, kwargs)

        self._called, self._awaited = call, awaited

    @overload
    def __get__(self, caller: None, kind: type) -> Callable[..., Any]: ...
    @overload
    def __get__(self, caller: Called, kind: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, caller: Awaited, kind: type) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, caller: Operations | None, kind: type) -> Any:
        function = self._awaited if issubclass(kind, Awaited) else self._called
        return function if caller is None else MethodType(function, caller)

    @cached_property
    def doc(self) -> str:
        """The method's docstring."""
        return inspect.getdoc(self.method) or ""

    @cached_property
    def hints(self) -> Mapping[str, Any]:
        """Types of the parameters and, under "return", of the result."""
        return get_type_hints(self.method)

    @cached_property
    def parameters(self) -> Mapping[str, inspect.Parameter]:
        """What a caller may give: the method's parameters without those that the service sets."""
        _, *own = inspect.signature(self.method).parameters.items()
        return {name: parameter for name, parameter in own if name not in self.kept}

    @cached_property
    def returns(self) -> Any:
        """The type of the result."""
        return self.hints["return"] if self._returns is None else self._returns

    @cached_property
    def summary(self) -> str:
        """The first paragraph of the docstring, on one line."""
        return " ".join(self.doc.split("\n\n", 1)[0].split())

    def arguments(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments by name; InputError for one that the service sets itself."""
        _, *given = inspect.signature(self.method).bind(None, *args, **kwargs).arguments.items()
        for name, _ in given:
            if name in self.kept and name != "wait":  # the service always waits
                raise InputError(f"got {name}=; a service sets it itself, by the API key: leave it out")
        return {name: value for name, value in given if name not in self.kept}

    def body(self, found: T) -> Any:
        """A result as a response holds it."""
        sent = found if self.write is None else self.write(found)
        return sent if self.result is None else {self.result: sent}

    def read(self, body: Any, given: Mapping[str, Any]) -> T:
        """The result in a response to these arguments."""
        if self.returns is type(None):
            return None  # type: ignore[return-value]
        found = from_plain(body if self.result is None else body[self.result], self.returns)
        if self._returns is not None and isinstance(given.get("peer"), str):
            (found,) = found.values()  # of one peer, and not of several
        return found  # type: ignore[no-any-return]

    def described(self, name: str) -> str:
        """The docstring's text on a parameter; "As for `route`." is looked up there."""
        own = _parameters_in(self.doc).get(name, "")
        for other in re.findall(r"`(\w+)`", own) if own.startswith("As for") else ():
            if other in TABLE and name in TABLE[other].parameters:
                return TABLE[other].described(name)
        return own


def _parameters_in(doc: str) -> dict[str, str]:
    """The descriptions in a numpydoc section of parameters, by name."""
    found: dict[str, str] = {}
    _, _, section = doc.partition("Parameters\n----------\n")
    for heading, text in re.findall(r"^(\S.*)\n((?:[ ]+.*\n?)*)", section, re.MULTILINE):
        for name in heading.partition(" :")[0].split(", "):
            found[name] = " ".join(text.split())
    return found


_ASKED = {"question": "What is 17 * 23?", "topic": "sums"}
_ANSWERS = {"gemma": "391", "phi": "391", "coder": "381"}
_LABELS = {"gemma": True, "phi": True, "coder": False}


class Operations:
    """The table. A new method: in `SigmaMem`, here, a test and a page."""

    route = Operation(SigmaMem.route, "write", quick=True, tool=True, example={**_ASKED, "ref": "trace-7"})
    vote = Operation(
        SigmaMem.vote,
        "write",
        quick=True,
        kept=("judges",),
        tool=True,
        example={"question": None, "answers": _ANSWERS, "ref": "trace-7"},
    )
    decide = Operation(
        SigmaMem.decide,
        "write",
        quick=True,
        kept=("judges",),
        tool=True,
        example={**_ASKED, "answers": _ANSWERS, "ref": "trace-8"},
    )
    feedback = Operation(
        SigmaMem.feedback,
        "write",
        quick=True,
        kept=("source", "wait"),
        noted=("id", "event", "labels", "amends"),
        tool=True,
        example={"decision": "trace-7", "labels": _LABELS, "id": "run-7"},
    )
    served = Operation(
        SigmaMem.served,
        "write",
        quick=True,
        kept=("source", "wait"),
        noted=("decision", "served", "cost"),
        example={"decision": "trace-7", "peer": "phi", "cost": 0.001, "latency": 0.4},
    )
    trust = Operation(SigmaMem.trust, "read", quick=True, tool=True, example=_ASKED)
    explain = Operation(
        SigmaMem.explain,
        "read",
        "GET",
        write=described_explanation,
        tool=True,
        example={"decision": "trace-8", "top": 2},
    )
    decision = Operation(SigmaMem.decision, "read", "GET", example={"id": "trace-7"})
    decisions = Operation(
        SigmaMem.decisions, "read", "GET", result="decisions", example={"last": 1, "peer": "gemma"}
    )
    history = Operation(
        SigmaMem.history,
        "read",
        "GET",
        result="histories",
        returns=dict[str, History],
        example={"peer": ["phi"]},
    )
    drift = Operation(SigmaMem.drift, "read", "GET", result="drift")
    sources = Operation(SigmaMem.sources, "read", "GET", result="sources")
    set_price = Operation(
        SigmaMem.set_price,
        "admin",
        path="prices",
        noted=("peer",),
        example={"peer": "coder", "per_call": 0.002, "latency": 0.8},
    )
    spent = Operation(SigmaMem.spent, "read", "GET")
    revoke = Operation(
        SigmaMem.revoke,
        "admin",
        result="lines",
        noted=("source", "undo"),
        example={"source": "default", "undo": True},
    )
    forget = Operation(SigmaMem.forget, "admin", result="events", noted=(), example={"decision": ["trace-8"]})
    add_peer = Operation(
        SigmaMem.add_peer,
        "admin",
        path="peers",
        noted=("peer", "returning", "like"),
        example={"peer": "qwen", "like": "phi", "worth": 20.0},
    )
    rename_peer = Operation(
        SigmaMem.rename_peer,
        "admin",
        path="peers/rename",
        noted=("peer", "name", "keep"),
        example={"peer": "qwen", "name": "qwen-2", "keep": 0.5},
    )
    remove_peer = Operation(
        SigmaMem.remove_peer, "admin", "DELETE", "peers", noted=("peer",), example={"peer": "qwen-2"}
    )


# A panel continues after the call, so that every caller has a panel of its own kind.
ASK = Operation(
    SigmaMem.ask,
    "write",
    returns=SentPanel,
    write=sent_panel,
    quick=True,
    example={**_ASKED, "ref": "trace-9"},
)
TABLE: Mapping[str, Operation[Any, Any]] = {
    **{name: each for name, each in vars(Operations).items() if isinstance(each, Operation)},
    ASK.name: ASK,
}


class Called(Operations):
    """The operations as methods that return their results."""

    def _call(self, operation: Operation[Any, T], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> T:
        raise NotImplementedError


class Awaited(Operations):
    """The operations as methods that are awaited."""

    async def _call(
        self, operation: Operation[Any, T], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> T:
        raise NotImplementedError
