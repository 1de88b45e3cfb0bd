"""Refusals of a service, as the exceptions that a memory in this process raises."""

from collections.abc import Mapping
from typing import Any

from sigma_mem.errors import (
    ConflictError,
    InputError,
    SigmaMemError,
    StoreBusyError,
    StoreError,
    UnknownDecisionError,
)


class ServiceError(SigmaMemError):
    """The service could not be reached, or refused; `status` is 0 where there was no response."""

    def __init__(self, message: str, status: int = 0, code: str = "") -> None:
        super().__init__(message)
        self.status, self.code = status, code


_KINDS: Mapping[str, type[SigmaMemError]] = {
    "not_found": UnknownDecisionError,
    "unknown_namespace": InputError,
    "conflict": ConflictError,
    "invalid_request": InputError,
    "store_busy": StoreBusyError,
    "store_unavailable": StoreError,
}


def error_from(status: int, body: Any, path: str) -> SigmaMemError:
    """The exception for a response that is not a success."""
    detail = body.get("error") if isinstance(body, Mapping) else None
    if not isinstance(detail, Mapping):
        return ServiceError(
            f"{path} answered {status} without an error body; is this a sigma-mem service?", status
        )
    message, code = str(detail.get("message")), str(detail.get("code"))
    kind = _KINDS.get(code)
    return ServiceError(message, status, code) if kind is None else kind(message)
