"""How well an encoder tells kinds of everyday prompts apart, in English and in other languages."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from sigma_lab.bench.prompts import LANGUAGES, Prompt, everyday_prompts
from sigma_lab.bench.table import Table
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


def encoder_table(encoders: Mapping[str, Encoder]) -> Table:
    """Measure encoders by name, behind WordLlama's raw vectors."""
    prompts = everyday_prompts()
    texts, kinds = [prompt.text for prompt in prompts], len({prompt.kind for prompt in prompts})
    rows = {RAW: raw_means(texts, digit=1.0)}
    rows |= {name: encoder.encode(texts) for name, encoder in encoders.items()}
    shares = {name: measured(found, prompts) for name, found in rows.items()}
    languages = "; ".join(f"{name}: {', '.join(codes)}" for name, codes in LANGUAGES.items())
    return Table(
        title="Encoders",
        values={
            "kinds": kinds,
            "encoders": {n: {part: asdict(of) for part, of in parts.items()} for n, parts in shares.items()},
        },
        header=["encoder", *(f"{part} ({of.prompts})" for part, of in shares[RAW].items())],
        rows=[
            [name, *(f"{s.nearer:.1%} {s.first:.1%} {s.nearest:.1%}" for s in parts.values())]
            for name, parts in shares.items()
        ],
        remarks=[
            f"Every prompt beside the English ones other than itself, {kinds} kinds. Three shares a "
            "cell: nearer on average to its own kind than to another; to its own kind than to every other; "
            "the nearest prompt is of its kind.",
            f"{languages}. Later: written after the glossary of the static encoder.",
        ],
    )


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
