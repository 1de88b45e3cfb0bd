"""From names of datasets, or of the paper's three collections, to questions: from files or the hub."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sigma_lab.collect.questions import Question
from sigma_lab.collect.releases import RELEASES, Release
from sigma_mem.errors import InputError
from sigma_mem.extras import require
from sigma_mem.streams.stream import chance


@dataclass(frozen=True, slots=True)
class Part:
    """How many questions of a dataset a recipe draws, and of which split ("" for all)."""

    dataset: str
    size: int
    split: str = ""


# If the paper gives only a domain's total, the datasets get equal shares of it, except for AMC23, of which
# all 40 are taken, and HotpotQA, of which the common subset with contexts has 500.
RECIPES: dict[str, tuple[Part, ...]] = {
    "paper-train": (Part("gsm8k", 1000), Part("squad", 1000), Part("apps", 963)),
    "paper-cf": (
        Part("math500", 392), Part("amc23", 40), Part("olympiadbench", 392), Part("college_math", 392),
        Part("hotpotqa", 500), Part("triviaqa", 575),
        Part("humaneval", 132), Part("mbpp", 131, "test"), Part("livecodebench", 131),
    ),
    "paper-ood": (
        Part("piqa", 1838), Part("mmlu", 1531), Part("openbookqa", 500), Part("sciq", 1000),
        Part("bbh", 6511), Part("superglue", 6023),
    ),
}  # fmt: skip


Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Built:
    """Questions, in order, and the requested datasets that are not available."""

    questions: tuple[Question, ...]
    missing: tuple[str, ...]


def build_questions(
    names: Sequence[str],
    raw: Path | None,
    seed: int = 0,
    progress: Progress = lambda what, done, total: None,
    sizes: Mapping[str, int] | None = None,
) -> Built:
    """Build the questions of datasets, or of one recipe; without a folder ``raw`` they come from the hub.

    A recipe takes what is available and names the rest; a dataset named by itself must be there. Draws and
    order depend on the seed and a question's id alone, so what is missing does not move the others.
    ``sizes`` draws fewer of a dataset ("piqa") or of a part of one ("superglue/wic").
    """
    if raw is not None and not raw.is_dir():
        raise InputError(f"got --raw {raw}, which is not a folder; expected one with a folder per dataset")
    if len(names) == 1 and names[0] in RECIPES:
        return _drawn(_recipe(names[0], raw, seed, progress), sizes or {}, seed)
    if unknown := [name for name in names if name not in RELEASES]:
        known = f"a recipe by itself ({', '.join(RECIPES)}) or datasets ({', '.join(RELEASES)})"
        raise InputError(f"got dataset {unknown[0]!r}; expected {known}")
    questions: list[Question] = []
    for number, name in enumerate(dict.fromkeys(names)):
        progress(name, number, len(names))
        questions += _all_of(RELEASES[name], raw)
    return _drawn(Built(tuple(questions), ()), sizes or {}, seed)


def _drawn(built: Built, sizes: Mapping[str, int], seed: int) -> Built:
    """Of the questions whose id begins with a key of ``sizes``, as many as its value, in their order."""
    dropped: set[str] = set()
    for key, size in sizes.items():
        pool = [question.id for question in built.questions if question.id.startswith(f"{key}/")]
        if not 0 <= size <= len(pool):
            raise InputError(f"got --size {key}={size}; expected at most {len(pool)}, as many as there are")
        dropped.update(sorted(pool, key=lambda id_: chance(seed, "draw", id_))[size:])
    return Built(tuple(q for q in built.questions if q.id not in dropped), built.missing)


def _recipe(name: str, raw: Path | None, seed: int, progress: Progress) -> Built:
    drawn: list[Question] = []
    missing: list[str] = []
    parts = RECIPES[name]
    for number, part in enumerate(parts):
        progress(part.dataset, number, len(parts))
        release = RELEASES[part.dataset]
        if raw is not None and not release.found(raw):
            missing.append(part.dataset)
            continue
        pool = [q for q in _all_of(release, raw) if part.split in ("", q.split)]
        if len(pool) < part.size:
            asked = f"{name} draws {part.size} questions of {part.dataset}"
            raise InputError(f"{asked}, which has {len(pool)} here; get the whole release")
        drawn += sorted(pool, key=lambda q: chance(seed, "draw", q.id))[: part.size]
    return Built(tuple(sorted(drawn, key=lambda q: chance(seed, "order", q.id))), tuple(missing))


def _all_of(release: Release, raw: Path | None) -> Iterator[Question]:
    if raw is None:
        yield from _from_hub(release)
        return
    files = release.found(raw)
    if not files:
        expected = " or ".join(str(raw / pattern) for pattern in release.files)
        raise InputError(f"{release.name} is not at hand; expected {expected}")
    for file in files:
        yield from release.questions(release.read(file), str(file))


def _from_hub(release: Release) -> Iterator[Question]:
    if release.hub is None:
        raise InputError(f"{release.name} has no place on the hub that is known here; give --raw FOLDER")
    datasets = require(
        "datasets", extra="hub", distribution="sigma-lab", purpose="reading a dataset from the hub"
    )
    repository, split, configurations = release.hub
    for name in configurations:
        configuration = None if name == "default" else name
        rows = datasets.load_dataset(repository, configuration, split=split, revision=release.revision)
        yield from release.questions(({"subset": name, **row} for row in rows), f"{repository} ({name})")
