"""Arguments of the wrong kind: one clear error, in place of what numpy or Python made of them.

A method checks what its arguments say. Where it fails because one is no value of the kind that its signature
names, an array for a name or a number for a mapping, the failure is explained by that argument.
"""

import inspect
import os
import reprlib
from collections.abc import Callable, Mapping
from datetime import date
from functools import wraps
from typing import Any, TypeVar

import numpy as np

from sigma_mem.decide import Reads
from sigma_mem.errors import InputError, SigmaMemError, StoreError
from sigma_mem.events import Decision
from sigma_mem.ledger.costs import Budget
from sigma_mem.memory import Settings
from sigma_mem.streams import Stream

T = TypeVar("T", bound=type)
_Kind = tuple[Callable[[Any], bool], str]  # whether a value is of it, and what it is called
_FAILURES = (ArithmeticError, AttributeError, RecursionError, TypeError, ValueError)


def _is_number(value: Any) -> bool:
    real = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    return real and bool(-1e300 < value < 1e300)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _is_path(value: Any) -> bool:
    if not isinstance(value, str | os.PathLike) or not isinstance(os.fspath(value), str):
        return False
    path = os.fspath(value)
    return path != "" and "\0" not in path and not any("\ud800" <= c <= "\udfff" for c in path)


def _are(value: Any, kind: Any) -> bool:
    try:
        return all(isinstance(each, kind) for each in value)
    except TypeError:  # it cannot be iterated
        return False


def _is_encoder(value: Any) -> bool:
    return isinstance(value, str) or callable(value) or hasattr(value, "encode")


def checked_count(name: str, value: int | None) -> None:
    """Raise for an argument that is neither None nor a whole number, 0 or more."""
    if value is not None and not (_is_whole(value) and 0 <= value < 1 << 62):
        raise InputError(f"{name} is {reprlib.repr(value)}; expected a whole number, 0 or more")


def checked_flag(name: str, value: bool | None) -> None:
    """Raise for an argument that is neither None nor a bool: 0 or "no" may pass for yes."""
    if value is not None and not isinstance(value, bool):
        raise InputError(f"{name} is {reprlib.repr(value)}; expected True or False")


_TEXT: _Kind = (lambda value: isinstance(value, str), "text")
_NUMBER: _Kind = (_is_number, "a number")
_WHOLE: _Kind = (_is_whole, "a whole number")
_PATH: _Kind = (_is_path, "the path of a file")
_NAMES: _Kind = (lambda value: _are(value, str), "a list of names")
_BY_PEER: _Kind = (lambda value: isinstance(value, Mapping), "a mapping from peers")
_ENCODER: _Kind = (_is_encoder, "the name of an encoder, a function, or an Encoder")
_DECISION: _Kind = (lambda value: isinstance(value, str | Decision), "a decision, or its id")
_BY_ANNOTATION: dict[str, _Kind] = {
    "str": _TEXT,
    "Literal['feedback', 'all']": _TEXT,
    "bool": (lambda value: isinstance(value, bool | np.bool_), "True or False"),
    "float": _NUMBER,
    "int": _WHOLE,
    "str | Decision": _DECISION,
    "str | os.PathLike[str]": _PATH,
    "Sequence[str]": _NAMES,
    "str | Decision | Iterable[str | Decision]": (
        lambda value: isinstance(value, str | Decision) or _are(value, str | Decision),
        "a decision, its id, or a list of them",
    ),
    "str | Embed | Encoder": _ENCODER,
    "str | Encoder": _ENCODER,
    "Topic": (lambda value: _are(value, str), "the name of a topic, or a list of them"),
    "Moment": (lambda value: isinstance(value, str | date) or _is_number(value), "a moment"),
    "Budget": (lambda value: isinstance(value, Budget), "Budget(...)"),
    "GivenAnswers": _BY_PEER,
    "Mapping[str, object]": _BY_PEER,
    "Canon": (lambda value: isinstance(value, str) or callable(value), "the name of a canon, or a function"),
    "Settings": (lambda value: isinstance(value, Settings), "Settings(...)"),
    "Reads": (lambda value: isinstance(value, Reads), "Reads(...)"),
    "Stream": (lambda value: isinstance(value, Stream), "a stream, as load_stream gives it"),
    "SigmaMem": (lambda value: hasattr(value, "replayed"), "another memory"),
    "Store": (lambda value: hasattr(value, "load_snapshot"), "a store"),
    "Callable[[], float]": (callable, "a function"),
    "Callable[[int, int], None]": (callable, "a function"),
}
_BY_NAME: dict[str, _Kind] = {
    "seed": (lambda value: _is_whole(value) and value >= 0, "a whole number, 0 or more"),
}


def explains_arguments(kind: T) -> T:
    """A class whose public methods say which argument was of a wrong kind, where they fail because of it."""
    for name in dir(kind):
        method = inspect.getattr_static(kind, name)
        if name.startswith("_") and name != "__init__":
            continue
        if isinstance(method, staticmethod):
            setattr(kind, name, staticmethod(_explaining(method.__func__)))
        elif inspect.isfunction(method):
            setattr(kind, name, _explaining(method))
    return kind


def _explaining(method: Callable[..., Any]) -> Callable[..., Any]:
    expected = {name: _kind_of(name, p) for name, p in inspect.signature(method).parameters.items()}

    @wraps(method)
    def call(*arguments: Any, **options: Any) -> Any:
        try:
            return method(*arguments, **options)
        except SigmaMemError:
            raise
        except OSError as error:
            if error.filename is None:
                raise
            what = f"could not {method.__name__.strip('_')}: {reprlib.repr(error.filename)}: {error.strerror}"
            raise StoreError(f"{what}; check the path, the disk and the permissions") from error
        except _FAILURES as error:
            for name, value in [*zip(expected, arguments, strict=False), *options.items()]:
                found = expected.get(name)
                if found is not None and not found[0](value):
                    got = " ".join(reprlib.repr(value).split())
                    raise InputError(f"{name} is {got}; expected {found[1]}") from error
            raise

    return call


def _kind_of(name: str, parameter: inspect.Parameter) -> _Kind | None:
    """What a parameter takes; None where anything goes."""
    annotation = str(parameter.annotation)
    found = _BY_NAME.get(name) or _BY_ANNOTATION.get(annotation.removesuffix(" | None"))
    if found is None or not annotation.endswith(" | None"):
        return found
    return (lambda value: value is None or found[0](value)), f"{found[1]}, or None"
