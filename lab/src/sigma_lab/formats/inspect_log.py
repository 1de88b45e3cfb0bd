"""inspect_ai: one JSON log per task and model, with a list of scored samples."""

import string
from collections.abc import Iterator
from typing import Any

from sigma_lab.formats.fields import Fields, Files, amount_of, only_score
from sigma_mem.errors import StreamError
from sigma_mem.streams.rows import Row, label_of_score

# inspect_ai's own reading of score values (value_to_float)
_WORDS = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0, "yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}


def matches(value: Any) -> bool:
    """Whether a parsed file is an eval log."""
    return isinstance(value, dict) and isinstance(value.get("eval"), dict) and "status" in value


def rows(files: Files, fields: Fields) -> Iterator[Row | str]:
    """One row per sample of the first epoch; several logs are joined by task and sample id."""
    for path, value in files:
        spec, samples = value["eval"], value.get("samples")
        if not isinstance(samples, list):
            remedy = "run the eval with log_samples, and import all of it"
            raise StreamError(f"{path}: the log holds no samples; {remedy}")
        task, model = str(spec.get("task") or ""), str(spec.get("model") or "")
        scorer = fields.score
        if scorer is None:
            scored = (name for s in samples if isinstance(s, dict) for name in s.get("scores") or {})
            scorer = only_score(path, list(dict.fromkeys(scored)))
        for sample in samples:
            yield _row(sample, task, model, scorer) if isinstance(sample, dict) else "not a sample"


def _row(sample: dict[str, Any], task: str, model: str, scorer: str | None) -> Row | str:
    if sample.get("epoch", 1) != 1:
        return "an epoch after the first"
    if sample.get("error"):
        return "the sample ended in an error"
    score = (sample.get("scores") or {}).get(scorer) or {}
    metadata, target = sample.get("metadata") or {}, sample.get("target")
    used = (sample.get("model_usage") or {}).values()
    return Row(
        key=f"{task}-{sample.get('id')}",
        peer=model,
        question=_question(sample),
        text=str((sample.get("output") or {}).get("completion") or ""),
        label=_label(score.get("value")),
        dataset=task,
        domain=str(metadata.get("domain") or metadata.get("category") or metadata.get("subject") or task),
        reference="; ".join(map(str, target)) if isinstance(target, list) else target,
        answer=score.get("answer") or None,
        cost=amount_of(*(usage.get("total_cost") for usage in used if isinstance(usage, dict))),
        latency=amount_of(sample.get("working_time"), sample.get("total_time")),
    )


def _question(sample: dict[str, Any]) -> str:
    text = sample.get("input")
    if not isinstance(text, str):
        text = "\n".join(_said(message) for message in text or [] if message.get("role") == "user")
    options = zip(string.ascii_uppercase, sample.get("choices") or [], strict=False)
    return "\n".join([text, *(f"{letter}. {option}" for letter, option in options)])


def _said(message: dict[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, list):
        return "\n".join(part.get("text", "") for part in content if part.get("type") == "text")
    return str(content or "")


def _label(value: Any) -> float | None:
    if isinstance(value, str):
        value = _WORDS.get(value, _WORDS.get(value.lower(), value))
    return label_of_score(value)
