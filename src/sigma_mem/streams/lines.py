"""One event as one line of JSON: the interchange format, both ways, with every check."""

from __future__ import annotations

import json
from typing import Any

from sigma_mem.answers.canon import canon
from sigma_mem.events import Answer, Event

__all__ = ["LineError", "from_line", "to_line"]


class LineError(ValueError):
    """A line is not an event; says what was got and expected. The loader adds file and line."""


def from_line(line: bytes) -> Event:
    """Read one event from a line of UTF-8 JSON, or raise LineError.

    ``id``, ``question`` and ``answers`` are required. Labels are true, false or a number in
    [−1, 1]; a peer without a label, or with null, is unlabelled. An answer without a ``canon``
    field gets the canon of its text; a recorded null stays null.

    Examples
    --------
    >>> line = b'{"id": "q1", "question": "2+2?", "answers": {"a": {"text": "4", "canon": "4"}},'
    >>> from_line(line + b' "correct": {"a": true}}').correct
    {'a': 1.0}
    """
    try:
        record = json.loads(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise LineError(f"byte {error.start} is not UTF-8; write the file as UTF-8") from error
    except json.JSONDecodeError as error:
        raise LineError(f"not JSON ({error.msg} at column {error.colno})") from error
    except RecursionError as error:
        raise LineError("JSON is nested too deeply; expected one event object") from error
    if not isinstance(record, dict):
        raise LineError(f"got {_kind(record)}; expected one JSON object per line")
    if b"\\ud" in line or b"\\uD" in line:
        _check_surrogates(record)
    return _event(record)


def _event(record: dict[str, Any]) -> Event:
    event_id = _text(record, "id")
    if not event_id:
        raise LineError('"id" is empty; every event needs an id of its own')
    question = _text(record, "question")
    answers = _answers(record)
    reference = record.get("reference")
    if reference is not None and not isinstance(reference, str):
        raise LineError(f'"reference" is {_kind(reference)}; expected a string or null')
    return Event(
        id=event_id,
        question=question,
        answers=answers,
        correct=_labels(record, answers),
        domain=_text(record, "domain", default=""),
        dataset=_text(record, "dataset", default=""),
        reference=reference,
    )


def _text(record: dict[str, Any], key: str, default: str | None = None) -> str:
    value = record.get(key, default)
    if isinstance(value, str):
        return value
    if key not in record:
        raise LineError(f'"{key}" is missing; expected a string')
    raise LineError(f'"{key}" is {_kind(value)}; expected a string')


def _answers(record: dict[str, Any]) -> dict[str, Answer]:
    given = record.get("answers")
    if not isinstance(given, dict) or not given:
        raise LineError(f'"answers" is {_kind(given)}; expected an object with at least one peer')
    answers: dict[str, Answer] = {}
    for peer, answer in given.items():
        if not peer:
            raise LineError("a peer has an empty name; name every peer")
        if not isinstance(answer, dict) or not isinstance(text := answer.get("text"), str):
            raise LineError(f'the answer of {peer!r} must be an object like {{"text": "…", "canon": "…"}}')
        form = answer["canon"] if "canon" in answer else canon(text)
        if form is not None and not isinstance(form, str):
            raise LineError(f"the canon of {peer!r} is {_kind(form)}; expected a string or null")
        answers[peer] = Answer(text, form)
    return answers


def _labels(record: dict[str, Any], answers: dict[str, Answer]) -> dict[str, float]:
    given = record.get("correct")
    if given is None:
        return {}
    if not isinstance(given, dict):
        raise LineError(f'"correct" is {_kind(given)}; expected an object from peer to label')
    labels: dict[str, float] = {}
    for peer, label in given.items():
        if peer not in answers:
            raise LineError(f'{peer!r} has a label but no answer; add it to "answers" or leave out the label')
        if label is True:
            labels[peer] = 1.0
        elif label is False:
            labels[peer] = -1.0
        elif label is not None:
            labels[peer] = _soft(peer, label)
    return labels


def _soft(peer: str, label: object) -> float:
    if not isinstance(label, int | float) or not -1.0 <= label <= 1.0:  # NaN fails the comparison
        raise LineError(f"the label of {peer!r} is {label!r}; expected true, false or a number in [-1, 1]")
    return float(label)


def _check_surrogates(value: Any) -> None:
    """Refuse half a surrogate pair: such text can be neither written nor encoded."""
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError as error:
        raise LineError("half a surrogate pair (\\ud800 … \\udfff) in a string; remove it") from error


def _kind(value: object) -> str:
    names = {
        dict: "an object",
        list: "a list",
        str: "a string",
        bool: "a boolean",
        type(None): "null or missing",
    }
    if isinstance(value, dict) and not value:
        return "an empty object"
    return names.get(type(value), "a number")


def to_line(event: Event) -> str:
    """Write one event as one line of JSON, newline included: labels ±1 become true and false."""
    record: dict[str, Any] = {
        "id": event.id,
        "dataset": event.dataset,
        "domain": event.domain,
        "question": event.question,
        "reference": event.reference,
        "answers": {peer: {"text": a.text, "canon": a.canon} for peer, a in event.answers.items()},
        "correct": {peer: _label(c) for peer, c in event.correct.items()},
    }
    return json.dumps(record, ensure_ascii=False) + "\n"


def _label(c: float) -> bool | float:
    return c > 0 if abs(c) == 1.0 else c
