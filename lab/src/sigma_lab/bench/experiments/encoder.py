"""How well an encoder distinguishes kinds of everyday prompts, and whether paraphrases are routed alike.

``data/prompts.txt``: "=== kind", then lines of a tag and a prompt of our own. The tag is a language. A number
behind it is that of the English prompt of the kind that it translates. A plus means that the prompt was
written after the glossary of `sigma_mem.encode.glossary`, which therefore was not fitted to it.
"""

import gzip
import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import resources
from pathlib import Path
from statistics import fmean

import numpy as np

from sigma_lab.bench.table import Table
from sigma_lab.encode.wordllama import raw_means
from sigma_mem.encode import Encoder
from sigma_mem.errors import InputError
from sigma_mem.events import FloatArray
from sigma_mem.session import SigmaMem
from sigma_mem.streams import Stream

LANGUAGES = {
    "English": ("en",),
    "European": ("de", "es", "fr", "it", "nl", "pl", "pt", "ru", "tr"),
    "Asian": ("ar", "hi", "ja", "ko", "zh"),
}
_TAG = re.compile(r"([a-z]{2})(\d*)(\+?)")


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt, its kind of task and its language."""

    kind: str
    language: str
    text: str
    later: bool  # written after the glossary
    translates: int | None = None  # which English prompt of its kind, from 1

    @property
    def group(self) -> str:
        """English, European or Asian."""
        return next(group for group, languages in LANGUAGES.items() if self.language in languages)


def everyday_prompts() -> tuple[Prompt, ...]:
    """All prompts, in the order of the file."""
    text = resources.files("sigma_lab.bench").joinpath("data/prompts.txt").read_text(encoding="utf-8")
    out: list[Prompt] = []
    kind = ""
    for line in text.splitlines():
        if line.startswith("=== "):
            kind = line.removeprefix("=== ")
            continue
        tag, prompt = line.split("\t")
        found = _TAG.fullmatch(tag)
        if found is None:
            raise ValueError(f"prompts.txt has the tag {tag!r}; expected one such as en, de3 or de+")
        language, number, plus = found.groups()
        out.append(
            Prompt(kind, language, prompt.replace("\\n", "\n"), bool(plus), int(number) if number else None)
        )
    return tuple(out)


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
            f"Every prompt against the English ones other than itself, {kinds} kinds. Three shares a "
            "cell: nearer on average to its own kind than to another; to its own kind than to every other; "
            "the nearest prompt is of its kind.",
            f"{languages}. Later: written after the glossary of the static encoder.",
        ],
    )


@dataclass(frozen=True, slots=True)
class Kept:
    """Routes of questions and of their paraphrases after a stream was learned; means over its orders."""

    pairs: int
    same: float  # pairs that go to the same peer
    by_chance: float  # the same, if paraphrases were drawn at random
    peers: float  # different peers that questions go to
    differ: float  # events of the stream at which not all peers were equally right


def paraphrase_table(
    encoders: Mapping[str, Encoder],
    pairs: Sequence[tuple[str, str]],
    stream: Stream,
    seeds: Sequence[int],
    progress: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> Table:
    """Whether a question in other words goes to the same peer, for every encoder."""
    found = {name: kept_routes(e, pairs, stream, seeds, progress) for name, e in encoders.items()}
    return Table(
        title="Paraphrases",
        values={"stream": stream.name, "encoders": {name: asdict(kept) for name, kept in found.items()}},
        header=["encoder", "same peer", "by chance", "different peers", "peers differ"],
        rows=[
            [name, f"{kept.same:.1%}", f"{kept.by_chance:.1%}", f"{kept.peers:.1f}", f"{kept.differ:.1%}"]
            for name, kept in found.items()
        ],
        remarks=[
            f"{len(pairs)} questions and their paraphrases, routed after {len(stream)} events of "
            f"{stream.name} with {len(stream.peers)} peers, means of {len(seeds)} orders. By chance: if "
            "every paraphrase were another question's. Peers differ: events of the stream at which not all "
            "peers were equally right.",
        ],
    )


def kept_routes(
    encoder: Encoder,
    pairs: Sequence[tuple[str, str]],
    stream: Stream,
    seeds: Sequence[int] = (0,),
    progress: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> Kept:
    """Learn from a stream in several orders, then route every question and its paraphrase."""
    phis = encoder.encode([event.question for event in stream])
    phi_of = {event.id: phi for event, phi in zip(stream, phis, strict=True)}
    asked = [encoder.encode([pair[side] for pair in pairs]) for side in (0, 1)]
    found: list[tuple[float, float, float]] = []
    for place, seed in enumerate(seeds):
        with SigmaMem(stream.peers, rank=encoder.rank, keep_text=False) as mem:
            for event in stream.select(seed=seed):
                mem.feedback(mem.route(phi=phi_of[event.id]), event.correct)
            first, second = ([mem.route(phi=phi).peer for phi in side] for side in asked)
        progress(encoder.name, place + 1, len(seeds))
        counts, others = Counter(first), Counter(second)
        same = sum(one == other for one, other in zip(first, second, strict=True)) / len(pairs)
        chance = sum(counts[peer] * others[peer] for peer in counts) / len(pairs) ** 2
        found.append((same, chance, len(counts)))
    labels = stream.labels()
    differ = float(np.mean(np.nanmax(labels, axis=1) > np.nanmin(labels, axis=1)))
    same, by_chance, peers = (fmean(column) for column in zip(*found, strict=True))
    return Kept(len(pairs), same, by_chance, peers, differ)


def load_paraphrases(path: Path) -> list[tuple[str, str]]:
    """Pairs of a file of JSON lines with ``original`` and ``paraphrase``, plain or .gz."""
    packed = path.read_bytes()
    text = (gzip.decompress(packed) if path.suffix == ".gz" else packed).decode("utf-8")
    found = [json.loads(line) for line in text.splitlines() if line.strip()]
    if not found or not all({"original", "paraphrase"} <= pair.keys() for pair in found):
        raise InputError(f"{path}: expected JSON lines with 'original' and 'paraphrase'")
    return [(pair["original"], pair["paraphrase"]) for pair in found]


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
