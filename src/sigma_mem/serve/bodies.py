"""Values of a session as JSON: the one place that writes them."""

import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass
from operator import attrgetter
from typing import Any

import numpy as np
from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError, to_json
from starlette.responses import Response

from sigma_mem.errors import InputError
from sigma_mem.events import Decision, Feedback, FloatArray
from sigma_mem.memory import Settings
from sigma_mem.serve.failures import finite
from sigma_mem.session import Explanation, SigmaMem

_DECISION = tuple(field.name for field in fields(Decision))
_DECISION_VALUES = attrgetter(*_DECISION)  # of all fields at once: a third of the time
_FEEDBACK = tuple(field.name for field in fields(Feedback))
_SETTINGS = TypeAdapter(Settings)


def body_response(body: Mapping[str, Any], status: int = 200) -> Response:
    """A body as a response; NaN and infinity, which JSON does not have, become null."""
    try:
        text = to_json(body, inf_nan_mode="null")  # a third of json's time
    except PydanticSerializationError:  # lone surrogates, which UTF-8 does not have
        text = json.dumps(finite(body), allow_nan=False, separators=(",", ":")).encode()
    return Response(text, status, media_type="application/json")


def phi_text(phi: FloatArray) -> str:
    """φ as base64 of little-endian float64."""
    return b64encode(phi.astype("<f8", copy=False).tobytes()).decode()


def decision_body(decision: Decision) -> dict[str, Any]:
    """A decision, with all its fields."""
    body = dict(zip(_DECISION, _DECISION_VALUES(decision), strict=True))
    body["phi"] = phi_text(decision.phi)
    return body


def feedback_body(feedback: Feedback) -> dict[str, Any]:
    """Feedback, with all its fields."""
    return {name: getattr(feedback, name) for name in _FEEDBACK}


def explanation_body(explanation: Explanation) -> dict[str, Any]:
    """An explanation: its fields, and the same in words."""
    return {**plain(explanation), "text": str(explanation)}


def namespace_body(name: str, mem: SigmaMem) -> dict[str, Any]:
    """What a namespace's memory is."""
    return {
        "name": name,
        "peers": list(mem.peers),
        "events": mem.events,
        "rank": mem.rank,
        "encoder": dict(mem.encoder),
        "settings": asdict(mem.settings),
        "keep_text": mem.keep_text,
    }


def plain(value: Any) -> Any:
    """A value made of dataclasses, arrays, mappings and sequences, as JSON has it."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [plain(item) for item in value]
    return value


def settings_from(values: Mapping[str, Any], trusted: Sequence[str]) -> Settings:
    """Settings from a request; these sources are trusted unless it names others, unknown names refused."""
    known = sorted(field.name for field in fields(Settings))
    for name in values:
        if name not in known:
            raise InputError(f"settings have {name!r}; expected some of {known}")
    try:
        return _SETTINGS.validate_python({"trusted": trusted, **values})
    except ValidationError as error:
        fault = error.errors()[0]
        raise InputError(f"{'.'.join(('settings', *map(str, fault['loc'])))}: {fault['msg']}") from error
