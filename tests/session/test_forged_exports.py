"""An exported file that somebody changed, and counted anew, is one error and leaves no file."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sigma_mem import SigmaMem
from sigma_mem.admin import export, restore
from sigma_mem.errors import SigmaMemError

PHI = np.array([1.0, 0.0])
VALUES = [None, 5, -1, "x", [], {}, True, [1], {"a": 1}, "", "\ud800"]
# Numbers that nobody would write may overflow where they are read; that is no error of the program.
OVERFLOWS = pytest.mark.filterwarnings("ignore::RuntimeWarning")


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """A memory with lines of many kinds, as it is exported, without the last line."""
    mem = SigmaMem(["a", "b"], rank=2)
    for _ in range(3):
        d = mem.vote("q", {"a": "1", "b": "2"}, phi=PHI, topic="t")
        mem.feedback(d.id, {"a": True, "b": False}, source="s")
    mem.set_price("a", per_call=0.1)
    mem.revoke("s")
    mem.rename_peer("a", keep=0.5)
    mem.rename_peer("b", "c")
    mem.remove_peer("c")
    mem.add_peer("d")
    mem.forget(d.id)
    file = tmp_path_factory.mktemp("forged") / "m.jsonl"
    export(mem, file)
    return [json.loads(line) for line in file.read_text().splitlines()[:-1]]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in inner:
        yield from places(part, (*path, key))


def changed(lines: list[dict[str, Any]], rng: random.Random) -> list[dict[str, Any]]:
    """The lines with one value removed, or another in its place."""
    forged = copy.deepcopy(lines)
    target: Any = forged[rng.randrange(1, len(forged))]
    *way, last = rng.choice([place for place in places(target) if place])
    for key in way:
        target = target[key]
    if rng.random() < 0.4:
        del target[last]
    else:
        target[last] = rng.choice(VALUES)
    return forged


def write(path: Path, lines: list[dict[str, Any]]) -> None:
    text = "".join(json.dumps(line) + "\n" for line in lines)
    end = {"lines": len(lines) - 1, "sha256": sha256(text.encode()).hexdigest()}
    path.write_text(text + json.dumps(end) + "\n")


@OVERFLOWS
@pytest.mark.parametrize("tries", [80, pytest.param(3000, marks=pytest.mark.endurance)])
def test_a_forged_export_is_refused_or_can_be_used(
    lines: list[dict[str, Any]], tmp_path: Path, tries: int
) -> None:
    rng, refused = random.Random(tries), []
    for number in range(tries):
        write(tmp_path / "x.jsonl", changed(lines, rng))
        target = tmp_path / f"{number}.db" if number % 4 == 0 else None
        try:
            with restore(tmp_path / "x.jsonl", target) as mem:
                list(mem.decisions())
                mem.trust()
        except SigmaMemError as error:
            refused.append(str(error))
    assert tries / 3 < len(refused) < tries
    assert not any("\n" in message for message in refused)
    assert len(list(tmp_path.glob("*.db"))) <= tries - len(refused)


def test_a_source_that_is_no_text_of_unicode_does_not_end_the_writer(
    lines: list[dict[str, Any]], tmp_path: Path
) -> None:
    forged = copy.deepcopy(lines)
    next(line for line in forged if line.get("kind") == "feedback")["body"]["source"] = "\ud800"
    write(tmp_path / "x.jsonl", forged)
    with SigmaMem(["a"], tmp_path / "m.db", rank=1) as mem:
        mem.route(phi=[1.0])
    with pytest.raises(SigmaMemError, match="not valid Unicode"):
        restore(tmp_path / "x.jsonl", tmp_path / "m.db", namespace="other")
    with SigmaMem(path=tmp_path / "m.db") as mem:
        assert mem.events == 1
