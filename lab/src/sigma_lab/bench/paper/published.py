"""The paper's own figures, transcribed from its LaTeX source, and how they pool."""

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

RATIOS = (0.0, 0.5, 0.7, 0.9)
SHARES = (0.05, 0.1, 0.25, 0.5, 1.0)  # of Figure 3; the paper says "from 5 % to 100 %"

# Names of datasets and subsets as streams have them, and as the paper prints them, in the paper's order.
DATASETS = {
    "gsm8k": "GSM8K", "squad": "SQuAD", "apps": "APPS",
    "piqa": "PIQA", "mmlu": "MMLU", "openbookqa": "OpenBookQA", "sciq": "SciQ", "bbh": "BBH",
    "superglue": "SuperGLUE",
}  # fmt: skip
SUBSETS = {"wic": "WiC", "rte": "RTE", "cb": "CB", "copa": "COPA", "wsc": "WSC", "multirc": "MultiRC"}


PEERS = (
    "Gemma-3-4B-it", "Phi-4-mini-instruct", "Qwen2.5-Coder-7B-Instruct", "Llama-3.2-3B-Instruct",
    "BitCPM-CANN-3B",
)  # fmt: skip


@cache
def published() -> dict[str, Any]:
    """All figures, in percent: ``cf``, ``peers``, ``readouts``, ``mechanisms`` and ``peer_accuracy``."""
    found: dict[str, Any] = json.loads(files(__package__).joinpath("published.json").read_text("utf-8"))
    return found


def figure(*path: str) -> Any:
    """One of the paper's figures, None if the paper has none.

    >>> figure("cf", "Qwen3-0.6B", "base", "90", "accuracy")
    46.22
    """
    found: Any = published()
    for name in path:
        if not isinstance(found, Mapping) or name not in found:
            return None
        found = found[name]
    return found


def paper_center(name: str) -> str | None:
    """The paper's name of a center, None if it has none of it.

    >>> paper_center("Qwen/Qwen3.5-4B"), paper_center("smollm2")
    ('Qwen3.5-4B', None)
    """
    short = name.rstrip("/").rpartition("/")[2]
    return short if short in published()["cf"] else None
