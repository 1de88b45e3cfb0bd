"""Lines as a store keeps them, and as an exported file has them: MessagePack, and JSON with names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any, TypeVar, Union

import msgspec
import numpy as np
from msgspec.structs import FieldInfo, fields

from sigma_mem.errors import InputError, StoreCorruptError, StoreVersionError
from sigma_mem.ledger.lines import (
    Body,
    DecisionLine,
    FeedbackLine,
    ForgetLine,
    ForgottenLine,
    Line,
    OpenLine,
    PeerLine,
    PriceLine,
    RefLine,
    RenameLine,
    ResetLine,
    RevokeLine,
    ServedLine,
)
from sigma_mem.store.base import Record, Store, refuse_unwritable

KINDS: Mapping[str, type[Body]] = {
    "open": OpenLine,
    "decision": DecisionLine,
    "feedback": FeedbackLine,
    "ref": RefLine,
    "served": ServedLine,
    "price": PriceLine,
    "peer": PeerLine,
    "reset": ResetLine,
    "rename": RenameLine,
    "revoke": RevokeLine,
    "unrevoke": RevokeLine,
    "forget": ForgetLine,
}
T = TypeVar("T")
FORGETTABLE = ("decision", "feedback", "served", "ref")  # kinds of lines that are forgotten with their event


class Ledger:
    """The lines of one namespace of a store."""

    def __init__(self, store: Store, namespace: str) -> None:
        self.store, self.namespace = store, namespace

    def lines(self, after: int = 0, until: int | None = None) -> Iterator[Line[Any]]:
        """Lines in order, with after < seq (≤ until)."""
        return map(line_of, self.store.records(self.namespace, after, until))

    def find(self, kind: str, id: str) -> Line[Any] | None:
        """The line of this kind and id, if any."""
        record = self.store.find(self.namespace, kind, id)
        return None if record is None else line_of(record)

    def of_event(self, event: str) -> list[Line[Any]]:
        """All lines that belong to an event, in order."""
        return [line_of(record) for record in self.store.of_event(self.namespace, event)]

    def of_source(self, source: str, until: int | None = None) -> Iterator[Record]:
        """Records of feedback of this source, in order, with seq ≤ until; callers only want their events."""
        return self.store.of_source(self.namespace, source, until)


def pages_back(read: Callable[[int, int], Iterable[T]], end: int, size: int = 512) -> Iterator[list[T]]:
    """Pages of a ledger up to line `end`, the newest first, the lines of a page in order.

    ``read`` takes the lines between two numbers, as `Ledger.lines` does.
    """
    for last in range(end, 0, -size):
        yield list(read(max(last - size, 0), last))


def as_plain(value: Any) -> Any:
    """A text or number of numpy's, or a mapping, as one of Python's; callers and details have such."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is not text, a number, a list or a mapping")


_fields = cache(fields)  # which evaluates all annotations of a class, for milliseconds
_ENCODER = msgspec.msgpack.Encoder(enc_hook=as_plain)
_DECODER: Any = msgspec.msgpack.Decoder(Union[(*KINDS.values(), ForgottenLine)])


def encoded(body: Body) -> bytes:
    """A body as bytes; raises TypeError or ValueError for details that have no such form."""
    return _ENCODER.encode(body)


def record_of(line: Line[Body]) -> Record:
    """A line as a store takes it; InputError if it has no bytes."""
    body = line.body
    source = body.source if isinstance(body, FeedbackLine | ServedLine) else None
    if source is not None:
        refuse_unwritable(source)
    try:
        return Record(line.kind, line.id, line.event, _ENCODER.encode(body), source, line.seq)
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        raise InputError(
            f"{line.kind} {line.id!r} cannot be written: {error}; expected text, numbers, lists and mappings"
        ) from error


def line_of(record: Record) -> Line[Any]:
    """The line that a store kept."""
    try:
        body = _DECODER.decode(record.body)
    except (msgspec.DecodeError, ValueError) as error:
        if record.kind not in KINDS:
            raise _unknown(record.kind, record.seq) from None
        raise StoreCorruptError(
            f"line {record.seq} of the ledger is not a {record.kind} ({error}); restore it from a backup"
        ) from error
    return Line(record.kind, record.id, record.event, body, record.seq)


def _unknown(kind: str, seq: int) -> StoreVersionError:
    return StoreVersionError(
        f"line {seq} of the ledger is a {kind!r}, which this version of sigma-mem does not know; "
        "upgrade sigma-mem (pip install -U sigma-mem)"
    )


def to_json(line: Line[Body]) -> dict[str, Any]:
    """A line as JSON values: fields by name, without those that have their default; bytes as base64."""
    body = {
        field.name: msgspec.to_builtins(value, enc_hook=as_plain)
        for field in _fields(type(line.body))
        if (value := getattr(line.body, field.name)) != field.default
        and not (field.default is msgspec.NODEFAULT and value == {} != field.default_factory)
    }
    named = {"kind": line.kind, "id": line.id, "event": line.event, "body": body}
    return {**named, "forgotten": True} if line.is_forgotten else named


def from_json(value: Mapping[str, Any]) -> Line[Any]:
    """The line of `to_json`; raises KeyError, TypeError or ValueError for anything else."""
    kind, id, event, given = (value[key] for key in ("kind", "id", "event", "body"))
    if not all(isinstance(text, str) for text in (kind, id, event)) or not isinstance(given, dict):
        raise TypeError("a kind, id or event is not text, or a body is not an object")
    if kind not in KINDS:
        raise _unknown(kind, 0)
    of = ForgottenLine if value.get("forgotten") and kind in FORGETTABLE else KINDS[kind]
    known = _fields(of)
    if unknown := given.keys() - {field.name for field in known}:
        raise ValueError(f"a {kind} has no {sorted(unknown)[0]!r}")
    values = [given[f.name] if f.name in given else _default(f) for f in known]
    body = msgspec.convert([of.__struct_config__.tag, *values], of)
    body.refuse_other_sizes()
    return Line(kind, id, event, body)


def _default(field: FieldInfo) -> Any:
    if field.default is not msgspec.NODEFAULT:
        return field.default
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    raise KeyError(field.name)
