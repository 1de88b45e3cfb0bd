"""Errors a caller can meet at run time.

Bad arguments raise ValueError (the classes below that stand for bad arguments are
ValueErrors too); everything else that goes wrong while running is a SigmaMemError.
A message has what was got, what was expected and what to do.
"""

from typing import Any


class SigmaMemError(Exception):
    """Base of every error of this package."""


class InputError(SigmaMemError, ValueError):
    """An argument is not acceptable; nothing was changed."""


class UnknownDecisionError(InputError):
    """Feedback or a later read names a decision that the memory does not hold."""


class ConflictError(InputError):
    """The same feedback id came with another body, and it did not amend."""


class StreamError(InputError):
    """A recorded stream is not in the interchange format; names file and line."""


class EncoderMismatchError(SigmaMemError):
    """A memory was opened with an encoder other than the one it was written with."""


class MissingExtraError(SigmaMemError):
    """An optional dependency is needed; names the pip command."""


class StoreError(SigmaMemError):
    """The store could not read or write; the memory is as it was before the call."""


class StoreBusyError(StoreError):
    """Another process holds the store for writing."""


class StoreUnavailableError(StoreError):
    """The database cannot be reached; it may be back later."""


class UnrecordedError(StoreError):
    """A decision was made, and the store could not take it.

    Attributes
    ----------
    decision : Decision
    lines : tuple of Line
        What the ledger should hold of it; `Journal.append_late` takes them once the store is back.
    """

    def __init__(self, message: str, decision: Any = None, lines: tuple[Any, ...] = ()) -> None:
        super().__init__(message)
        self.decision, self.lines = decision, lines


class StoreEmptyError(StoreError):
    """A store that has no tables yet was opened to be read."""


class StoreCorruptError(StoreError):
    """The file is not a memory, or its bytes are damaged."""


class StoreVersionError(StoreError):
    """The file was written by a newer version of the package."""
