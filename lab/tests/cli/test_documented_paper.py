"""Every command of the page from models to the paper's tables, with a tiny center and small files."""

import gzip
import hashlib
import json
import re
import shlex
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from collect.loopback import LoopbackEndpoint, prompt_of
from sigma_lab.collect import question_sets
from sigma_mem.cli.app import run

PAGE = (Path(__file__).parents[3] / "docs" / "lab" / "paper.md").read_text(encoding="utf-8")
BEFORE = PAGE.split("## What the paper leaves open")[0]
COMMANDS = [
    line
    for block in re.findall(r"^```sh\n(.*?)^```", BEFORE, re.MULTILINE | re.DOTALL)
    for line in block.replace("\\\n", " ").splitlines()
]
TOML = re.findall(r"^```toml\n(.*?)^```", BEFORE, re.MULTILINE | re.DOTALL)
SMALL = {"paper-train": 7, "paper-cf": 4, "paper-ood": 4}


@pytest.fixture
def endpoint() -> Iterator[LoopbackEndpoint]:
    with closing(LoopbackEndpoint()) as server:
        yield server


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Release files of our own, and a tiny model."""
    pytest.importorskip("torch", reason="needs the extra [center]")
    from train.tiny import saved_center

    raw = tmp_path / "raw"
    lines = {
        "gsm8k/train.jsonl": [{"question": f"{n} + {n}?", "answer": f"#### {2 * n}"} for n in range(8)],
        "math500/test.jsonl": [
            {"problem": f"What is ${n} + 1$?", "solution": "", "answer": str(n + 1), "subject": ""}
            for n in range(4)
        ],
        "triviaqa/test-own.jsonl": [
            {"question_id": f"t{n}", "question": f"Who is {n}?"}
            | {"answer": {"value": f"name {n}", "aliases": []}}
            for n in range(4)
        ],
        "piqa/valid.jsonl": [{"goal": f"Do {n}.", "sol1": "This.", "sol2": "That."} for n in range(4)],
        "superglue/RTE/val.jsonl": [
            {"premise": f"It is {n}.", "hypothesis": "It is.", "label": "entailment", "idx": n}
            for n in range(4)
        ],
    }
    for name, records in lines.items():
        (raw / name).parent.mkdir(parents=True, exist_ok=True)
        (raw / name).write_text("".join(json.dumps(record) + "\n" for record in records))
    (raw / "piqa" / "valid-labels.lst").write_text("0\n" * 4)
    (raw / "squad").mkdir()
    contexts = [
        {"context": f"The mill {n} was built by Anna.", "question": f"Who built {n}?", "answer": "Anna"}
        for n in range(8)
    ]
    (raw / "squad" / "train-own.json").write_text(json.dumps(contexts))
    saved_center(tmp_path / "model", positions=4096)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SIGMA_MEM_CACHE", str(tmp_path / "cache"))
    for name, parts in question_sets.RECIPES.items():
        small = tuple(question_sets.Part(p.dataset, SMALL[name], p.split) for p in parts)
        monkeypatch.setitem(question_sets.RECIPES, name, small)
    return tmp_path


def test_every_command_of_the_page_runs(folder: Path, endpoint: LoopbackEndpoint) -> None:
    right: dict[str, str] = {}

    def half_right(body: dict[str, Any]) -> str:
        """Models are right about half the time, each on questions of its own."""
        prompt = prompt_of(body)
        luck = hashlib.sha256((body["model"] + prompt).encode()).digest()[0]
        return f"Answer: {right[prompt] if luck < 130 else 'something else'}"

    endpoint.reply = half_right
    five = re.sub(r"http://127.0.0.1:800\d/v1", endpoint.url, TOML[0]).replace(
        "concurrency = 64", "concurrency = 2"
    )
    (folder / "five.toml").write_text(five)
    (folder / "three.toml").write_text(five.split('[peers."Llama')[0])
    for command in COMMANDS:
        words = shlex.split(command.replace("--device cuda", "").replace("--steps 600", "--steps 2"))[1:]
        words = ["model" if word.startswith("Qwen/") else word for word in words]
        if words[0] == "paper":
            # Five centers would be five times the same tiny model.
            first = words.index("--center")
            words = [w for i, w in enumerate(words) if i <= first + 1 or "--center" not in (w, words[i - 1])]
            words += ["--margin-steps", "1", "--rows", "6", "--masks", "1", "--shares", "0.5,1"]
        assert run(words) == 0, command
        if words[1] == "questions":
            with gzip.open(folder / words[words.index("--out") + 1], "rt") as file:
                right |= {q["prompt"]: q["reference"]["answers"][0] for q in map(json.loads, file)}
    found = json.loads((folder / "paper" / "paper.json").read_text("utf-8"))
    assert found["missing"] == []
    assert {"table-1", "table-2", "table-3", "table-4", "figure-3", "superglue", "attack"} <= set(
        found["tables"]
    )
    with gzip.open(folder / "cf.jsonl.gz", "rt") as file:
        assert len(json.loads(file.readline())["answers"]) >= 4
