"""What goes wrong with an upstream, in words that a client may see."""

from typing import Any, Self

from sigma_mem.errors import SigmaMemError
from sigma_mem.serve.gateway.parsing import decode_json

_REFUSALS = (400, 413, 415, 422)  # about the request; every other status is about the upstream or its key


class UpstreamError(SigmaMemError):
    """An upstream gave no answer. This says nothing about whether its answers are right.

    Attributes
    ----------
    peer : str
    reason : str
        A short text without addresses or keys.
    status : int, optional
        What it answered with.
    body : mapping, optional
        The error it sent, where it refused the request.
    pause : float, optional
        Seconds that it asked to be left alone, where it limits its rate.
    """

    def __init__(
        self, peer: str, reason: str, status: int | None = None, body: dict[str, Any] | None = None
    ) -> None:
        super().__init__(f"{peer} {reason}")
        self.peer, self.reason, self.status, self.body = peer, reason, status, body
        self.pause: float | None = None

    @classmethod
    def of_status(cls, peer: str, status: int, raw: bytes) -> Self:
        """The error for an answer that is not 200; the body is kept where the request was refused."""
        return cls(peer, f"answered {status}", status, _error_in(raw) if status in _REFUSALS else None)

    @property
    def is_refusal(self) -> bool:
        """Whether the upstream works and did not accept the request: too long, an image, an unknown field."""
        return self.status in _REFUSALS


def _error_in(raw: bytes) -> dict[str, Any]:
    """OpenAI's error object; other servers' errors become its message."""
    try:
        found = decode_json(raw)
    except ValueError:
        found = None
    error = found.get("error") if isinstance(found, dict) else None
    if isinstance(error, dict) and isinstance(error.get("message"), str):
        return {key: error.get(key) for key in ("message", "type", "param", "code")}
    detail = error if isinstance(error, str) else found.get("detail") if isinstance(found, dict) else None
    message = detail if isinstance(detail, str) else "the upstream refused the request"
    return {"message": message, "type": "invalid_request_error", "param": None, "code": None}
