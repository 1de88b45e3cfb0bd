"""What a peer is shown of a question: its prompt and its choices, never the reference."""

import json
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sigma_mem.errors import InputError
from sigma_mem.streams.jsonl import read_file


@dataclass(frozen=True)
class TaskPrompt:
    """The part of a question that peers see."""

    id: str
    prompt: str
    choices: tuple[tuple[str, str], ...] = ()
    """Label and text of every option, in order."""
    dataset: str = ""

    def shown(self) -> dict[str, Any]:
        """What a command is given: everything but the dataset."""
        line: dict[str, Any] = {"id": self.id, "prompt": self.prompt}
        return line | ({"choices": [list(choice) for choice in self.choices]} if self.choices else {})


def read_task_prompts(path: Path, limit: int | None = None) -> list[TaskPrompt]:
    """The prompts of a file of questions (JSON lines with ``id`` and ``prompt``, plain or compressed)."""
    lines = json_lines(path)
    prompts = [_task_prompt(value, f"{path}, line {number}") for number, value in lines]
    if not prompts:
        raise InputError(f"{path}: holds no question; expected one JSON object per line")
    seen: set[str] = set()
    for (number, _), task in zip(lines, prompts, strict=True):
        if task.id in seen:
            raise InputError(f"{path}, line {number}: id {task.id!r} is there twice; ids must differ")
        seen.add(task.id)
    return prompts[:limit]


def json_lines(path: Path) -> list[tuple[int, dict[str, Any]]]:
    """The objects of a file of JSON lines with their line numbers."""
    found: list[tuple[int, dict[str, Any]]] = []
    for number, line in enumerate(read_file(path).split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path}, line {number}: not JSON ({error}); expected one object") from error
        if not isinstance(value, dict):
            raise InputError(f"{path}, line {number}: got {type(value).__name__}; expected an object")
        found.append((number, value))
    return found


def clean_text(text: str) -> str:
    """The text as valid UTF-8: a lone surrogate, which JSON can carry, could not be written to a file."""
    return text.encode("utf-8", "replace").decode("utf-8")


def labelled_choices(choices: Any) -> tuple[tuple[str, str], ...]:
    """Options as (label, text): a list of texts gets letters, a mapping or pairs keep their labels.

    >>> labelled_choices(["red", "blue"])
    (('A', 'red'), ('B', 'blue'))
    >>> labelled_choices({"yes": "it does", "no": "it does not"})
    (('yes', 'it does'), ('no', 'it does not'))
    """
    if isinstance(choices, Mapping):
        choices = list(choices.items())
    if not isinstance(choices, Sequence) or isinstance(choices, str):
        raise InputError(f"got choices {choices!r:.80}; expected a list of texts")
    if all(isinstance(choice, str) for choice in choices):
        choices = list(zip(_letters(len(choices)), choices, strict=True))
    if not all(_is_pair(choice) for choice in choices):
        raise InputError(f"got choices {choices!r:.80}; expected texts, or labels with their texts")
    return tuple((clean_text(label), clean_text(text)) for label, text in choices)


def _letters(n: int) -> list[str]:
    letters = string.ascii_uppercase
    return [letters[i] if i < len(letters) else str(i + 1) for i in range(n)]


def _is_pair(choice: Any) -> bool:
    return isinstance(choice, Sequence) and len(choice) == 2 and all(isinstance(part, str) for part in choice)


def _task_prompt(value: dict[str, Any], where: str) -> TaskPrompt:
    for field in ("id", "prompt"):
        if not isinstance(value.get(field), str) or not value[field].strip():
            raise InputError(f"{where}: got {field} {value.get(field)!r:.80}; expected a text")
    try:
        choices = labelled_choices(value.get("choices") or ())
    except InputError as error:
        raise InputError(f"{where}: {error}") from error
    dataset = value.get("dataset")
    prompt = clean_text(value["prompt"])
    return TaskPrompt(clean_text(value["id"]), prompt, choices, dataset if isinstance(dataset, str) else "")
