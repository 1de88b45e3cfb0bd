"""How well an encoder tells kinds of everyday prompts apart, in English and in other languages."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from sigma_lab.bench.prompts import LANGUAGES, Prompt, everyday_prompts
from sigma_lab.bench.table import Grid
from sigma_lab.encode.wordllama import raw_means
from sigma_mem.encode import Encoder
from sigma_mem.events import FloatArray

RAW = "WordLlama, raw"


@dataclass(frozen=True, slots=True)
class Shares:
    """Of some prompts, each compared with the English ones other than itself."""

    prompts: int
    nearer: float  # pairs (prompt, other kind) in which the own kind has the higher mean similarity
    first: float  # prompts whose own kind has the highest mean similarity of all kinds
    nearest: float  # prompts whose nearest English prompt is of their kind


@dataclass(frozen=True, slots=True)
class EncoderTable:
    """Shares by encoder and by part of the prompts."""

    kinds: int
    shares: Mapping[str, Mapping[str, Shares]]  # by encoder, then part

    def values(self) -> dict[str, Any]:
        """The object that ``--json`` prints."""
        found = {
            name: {part: asdict(shares) for part, shares in parts.items()}
            for name, parts in self.shares.items()
        }
        return {"kinds": self.kinds, "encoders": found}

    def grid(self) -> Grid:
        """A line per encoder, a column per part."""
        parts = next(iter(self.shares.values()))
        header = ["encoder", *(f"{part} ({shares.prompts})" for part, shares in parts.items())]
        lines = [
            [name, *(f"{s.nearer:.1%} {s.first:.1%} {s.nearest:.1%}" for s in of_parts.values())]
            for name, of_parts in self.shares.items()
        ]
        return header, lines

    def remarks(self) -> list[str]:
        """How to read a cell."""
        languages = "; ".join(f"{name}: {', '.join(codes)}" for name, codes in LANGUAGES.items())
        return [
            f"Every prompt beside the English ones other than itself, {self.kinds} kinds. Three shares a "
            "cell: nearer on average to its own kind than to another; to its own kind than to every other; "
            "the nearest prompt is of its kind.",
            f"{languages}. Later: written after the glossary of the static encoder.",
        ]


def encoder_table(encoders: Mapping[str, Encoder]) -> EncoderTable:
    """Measure encoders by name, behind WordLlama's raw vectors."""
    prompts = everyday_prompts()
    texts = [prompt.text for prompt in prompts]
    rows = {RAW: raw_means(texts, digit=1.0)}
    rows |= {name: encoder.encode(texts) for name, encoder in encoders.items()}
    shares = {name: measured(found, prompts) for name, found in rows.items()}
    return EncoderTable(len({prompt.kind for prompt in prompts}), shares)


def measured(rows: FloatArray, prompts: Sequence[Prompt]) -> dict[str, Shares]:
    """Shares of every part, from one row of numbers a prompt."""
    kinds, kind = np.unique([prompt.kind for prompt in prompts], return_inverse=True)
    english = np.flatnonzero([prompt.language == "en" for prompt in prompts])
    unit = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    other = np.arange(len(rows))[:, None] != english
    similar = np.where(other, unit @ unit[english].T, 0.0)
    of_kind = np.eye(len(kinds))[kind[english]]
    mean = (similar @ of_kind) / (other @ of_kind)
    own = mean[np.arange(len(rows)), kind]
    nearer = (mean < own[:, None]).sum(axis=1) / (len(kinds) - 1)
    first = nearer == 1.0
    nearest = kind[english][np.where(other, similar, -np.inf).argmax(axis=1)] == kind
    out: dict[str, Shares] = {}
    for later in (False, True):
        for group in LANGUAGES:
            part = np.array([p.group == group and p.later == later for p in prompts])
            name = f"{group}, later" if later else group
            means = (float(share[part].mean()) for share in (nearer, first, nearest))
            out[name] = Shares(int(part.sum()), *means)
    return out
