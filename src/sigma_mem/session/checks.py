"""Arguments at the door of a memory: what was got, what was expected."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from reprlib import repr as brief
from typing import Any

import numpy as np

from sigma_mem.decide import Read
from sigma_mem.errors import InputError, StoreError


def checked_name(what: str, value: object) -> str:
    """A text that is not empty; an array of one name is equal to the name, and yet none."""
    if not isinstance(value, str) or not value:
        raise _refused(what, value, "a name")
    return value


def checked_names(what: str, value: object) -> Sequence[str]:
    """Several names; one text is taken for a mistake."""
    if isinstance(value, str):
        raise _refused(what, value, f"a list of names, such as [{value!r}]")
    if not isinstance(value, Sequence) or not all(isinstance(name, str) for name in value):
        raise _refused(what, value, "a list of names")
    return value


def checked_count(what: str, value: object) -> None:
    """Raise for an argument that is neither None nor a whole number, 0 or more."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if value is not None and not (whole and 0 <= value < 1 << 62):  # type: ignore[operator]
        raise _refused(what, value, "a whole number, 0 or more")


def checked_flag(what: str, value: object) -> None:
    """Raise for an argument that is neither None nor a bool: 0 or "no" may pass for yes."""
    if value is not None and not isinstance(value, bool):
        raise _refused(what, value, "True or False")


def checked_seconds(what: str, value: object) -> None:
    """Raise for an argument that is neither None nor seconds since 1970."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if value is not None and not (number and abs(value) < 2**53 and math.isfinite(value)):  # type: ignore[arg-type]
        raise _refused(what, value, "seconds since 1970")


def checked_kind(what: str, value: object, kind: type | tuple[type, ...], expected: str) -> None:
    """Raise for an argument that is neither None nor of this kind."""
    if value is not None and not isinstance(value, kind):
        raise _refused(what, value, expected)


def named_read(reads: Mapping[str, Read], name: object) -> Read:
    """The read of this name."""
    if not isinstance(name, str) or name not in reads:
        raise InputError(f"read is {_line(name)}; expected one of {sorted(reads)}")
    return reads[name]


def checked_share(what: str, value: float | None) -> float | None:
    """A share of what is right, or None."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if value is not None and not (number and 0.0 <= value <= 1.0):
        raise _refused(what, value, "a share in [0, 1]")
    return value


def checked_path(what: str, value: object) -> None:
    """Raise for an argument that is neither None nor the path of a file."""
    path = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if value is not None and (not isinstance(path, str) or "\0" in path):
        raise _refused(what, value, "the path of a file")


@contextmanager
def file_errors(doing: str) -> Iterator[None]:
    """Failures of the file system as one error that names the file and the remedy."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            raise
        raise StoreError(
            f"could not {doing}: {brief(error.filename)}: {error.strerror}; "
            "check the path, the disk and the permissions"
        ) from error


def _refused(what: str, value: object, expected: str) -> InputError:
    return InputError(f"{what} is {_line(value)}; expected {expected}")


def _line(value: Any) -> str:
    return " ".join(brief(value).split())
