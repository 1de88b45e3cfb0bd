"""inspect_ai: one JSON log per task and model, with a list of scored samples."""

from collections.abc import Iterator, Sequence
from typing import Any

from sigma_mem.errors import StreamError
from sigma_mem.streams.formats.rows import Fields, File, Row, label_of_score, only_score

# inspect_ai's own reading of score values (value_to_float)
_WORDS = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0, "yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}


def matches(value: Any) -> bool:
    """Whether a parsed file is an eval log."""
    return isinstance(value, dict) and isinstance(value.get("eval"), dict) and "status" in value


def rows(files: Sequence[File], fields: Fields) -> Iterator[Row | str]:
    """One row per sample of the first epoch; several logs are joined by task and sample id."""
    for file in files:
        spec, samples = file.value["eval"], file.value.get("samples")
        if not isinstance(samples, list):
            raise StreamError(
                f"{file.path}: the log holds no samples; run the eval with log_samples, and import all of it"
            )
        task, model = str(spec.get("task") or ""), str(spec.get("model") or "")
        scorer = fields.score
        if scorer is None:
            scored = (name for s in samples if isinstance(s, dict) for name in s.get("scores") or {})
            scorer = only_score(file.path, list(dict.fromkeys(scored)))
        for sample in samples:
            yield _row(sample, task, model, scorer) if isinstance(sample, dict) else "not a sample"


def _row(sample: dict[str, Any], task: str, model: str, scorer: str | None) -> Row | str:
    if sample.get("epoch", 1) != 1:
        return "an epoch after the first"
    if sample.get("error"):
        return "the sample ended in an error"
    score = (sample.get("scores") or {}).get(scorer) or {}
    metadata, target = sample.get("metadata") or {}, sample.get("target")
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
    )


def _question(sample: dict[str, Any]) -> str:
    given = sample.get("input")
    text = (
        given
        if isinstance(given, str)
        else "\n".join(_said(m) for m in given or [] if m.get("role") == "user")
    )
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    options = [
        f"{letter}. {option}" for letter, option in zip(letters, sample.get("choices") or [], strict=False)
    ]
    return "\n".join([text, *options])


def _said(message: dict[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, list):
        return "\n".join(part.get("text", "") for part in content if part.get("type") == "text")
    return str(content or "")


def _label(value: Any) -> float | None:
    if isinstance(value, str):
        value = _WORDS.get(value, _WORDS.get(value.lower(), value))
    return label_of_score(value)
