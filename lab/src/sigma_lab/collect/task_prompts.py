"""What a peer is shown of a question: its prompt, never the reference."""

import gzip
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sigma_mem.errors import InputError
from sigma_mem.files import replace_file
from sigma_mem.streams.jsonl import file_error, read_file


@dataclass(frozen=True)
class TaskPrompt:
    """The part of a question that peers see."""

    id: str
    prompt: str
    dataset: str = ""


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


def write_json_lines(path: Path, records: Iterable[Mapping[str, Any]]) -> None:
    """Write objects, compressed if the name ends in ``.gz``: whole or not at all, and equal ones alike."""
    lines = (json.dumps(record, ensure_ascii=False).encode("utf-8", "replace") + b"\n" for record in records)
    data = b"".join(lines)
    try:
        with replace_file(path) as temporary:
            temporary.write_bytes(gzip.compress(data, 6, mtime=0) if path.suffix == ".gz" else data)
    except OSError as error:
        raise file_error(path, "write", error) from error


def clean_text(text: str) -> str:
    """The text as valid UTF-8: a lone surrogate, which JSON can carry, could not be written to a file."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _task_prompt(value: dict[str, Any], where: str) -> TaskPrompt:
    for field in ("id", "prompt"):
        if not isinstance(value.get(field), str) or not value[field].strip():
            raise InputError(f"{where}: got {field} {value.get(field)!r:.80}; expected a text")
    dataset = value.get("dataset")
    prompt = clean_text(value["prompt"])
    return TaskPrompt(clean_text(value["id"]), prompt, dataset if isinstance(dataset, str) else "")
