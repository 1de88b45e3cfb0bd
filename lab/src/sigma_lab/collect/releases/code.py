"""HumanEval, MBPP, APPS and LiveCodeBench.

Tests have one of three forms: ``asserts`` (code that runs behind the answer), ``stdin`` (pairs of input and
expected output) and ``call`` (a function's name, and pairs of arguments and expected value).
"""

import base64
import binascii
import io
import json
import pickle
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from sigma_lab.collect.releases.draft import PARQUET, Draft, Release, Row, parsed_rows


def humaneval(row: Row) -> Iterator[Draft]:
    """The head of a function to be completed, and a ``check`` of it."""
    name, head = row["entry_point"], row["prompt"]
    tests = {"form": "asserts", "head": head, "entry": name, "code": f"{row['test']}\ncheck({name})"}
    question = f"Complete this function:\n\n```python\n{head.rstrip()}\n```"
    key = row["task_id"].rpartition("/")[2]
    yield Draft(question, key=key, solution=head + row["canonical_solution"], tests=tests)


def mbpp(row: Row) -> Iterator[Draft]:
    """One sentence and three asserts, which peers see, as in the paper that introduced it."""
    asserts, number = row["test_list"], int(row["task_id"])
    setup = [row.get("test_setup_code") or "", *(row.get("test_imports") or [])]
    tests = {"form": "asserts", "head": "", "entry": "", "code": "\n".join([*setup, *asserts])}
    text = row["text"] if "text" in row else row["prompt"]
    question = f"{text.strip()}\nIt must pass these tests:\n\n```python\n" + "\n".join(asserts) + "\n```"
    split = next(name for last, name in _MBPP_SPLITS if number <= last)
    yield Draft(question, key=str(number), split=split, solution=row["code"], tests=tests)


_MBPP_SPLITS = ((10, "prompt"), (510, "test"), (600, "validation"), (10_000, "train"))


def apps(row: Row) -> Iterator[Draft]:
    """Competition tasks; those without tests cannot be graded and are left out."""
    given = _json(row["input_output"])
    if not given or not given["inputs"]:
        return
    cases = [list(case) for case in zip(given["inputs"], given["outputs"], strict=True)]
    if "fn_name" in given:
        tests: dict[str, Any] = {"form": "call", "function": given["fn_name"], "cases": cases}
    else:
        tests = {"form": "stdin", "cases": [[_lines(a), _lines(b)] for a, b in cases]}
    solutions = _json(row.get("solutions") or "[]")
    question = _task(row["question"], row.get("starter_code") or "")
    key, kind = str(row["problem_id"]), row.get("difficulty", "")
    yield Draft(question, key=key, kind=kind, solution=(solutions or [""])[0], tests=tests)


def livecodebench(row: Row) -> Iterator[Draft]:
    """Competition tasks with public and private tests, the latter packed."""
    tests = [*_json(row["public_test_cases"]), *_unpacked(row["private_test_cases"])]
    function = _json(row.get("metadata") or "{}").get("func_name")
    form: dict[str, Any] = {"form": "stdin", "cases": [[test["input"], test["output"]] for test in tests]}
    if tests[0]["testtype"] == "functional":
        cases = [[_values(test["input"]), json.loads(test["output"])] for test in tests]
        form = {"form": "call", "function": function, "cases": cases}
    question = _task(row["question_content"], row.get("starter_code") or "")
    yield Draft(question, key=row["question_id"], kind=row["difficulty"], tests=form)


def _task(text: str, starter: str) -> str:
    how = "The program reads standard input and writes standard output."
    return f"{text.strip()}\n\n" + (
        f"Begin with:\n\n```python\n{starter.strip()}\n```" if starter.strip() else how
    )


def _values(lines: str) -> list[Any]:
    """Arguments of a call, one JSON value per line."""
    return [json.loads(line) for line in lines.split("\n") if line.strip()]


def _lines(text: Any) -> str:
    """APPS writes some inputs as lists of lines."""
    return "\n".join(map(str, text)) if isinstance(text, list) else str(text)


def _json(text: Any) -> Any:
    return json.loads(text or "{}") if isinstance(text, str) else text


class _Plain(pickle.Unpickler):
    """Reads a pickled string and nothing that names a class, so that no code can run."""

    def find_class(self, module: str, name: str) -> Any:
        raise ValueError(f"private tests name {module}.{name}; expected a string")


def _unpacked(packed: str) -> Any:
    """Tests as JSON, or as the release packs them: JSON in a pickled string, deflated, in base 64."""
    try:
        data = zlib.decompress(base64.b64decode(packed, validate=True))
    except (binascii.Error, zlib.error):
        return _json(packed)
    return json.loads(_Plain(io.BytesIO(data)).load())


def apps_folders(file: Path) -> Iterable[Row]:
    """A record of the original release, which has a folder for each problem, or of a file of JSON lines."""
    if file.name != "question.txt":
        return parsed_rows(file)
    row: dict[str, Any] = {"problem_id": file.parent.name, "question": file.read_text(encoding="utf-8")}
    for name in ("input_output.json", "solutions.json", "starter_code.py"):
        part = file.with_name(name)
        row[part.stem] = part.read_text(encoding="utf-8") if part.is_file() else ""
    return [row]


_TEST = ("code", "test", "program")
_MBPP_HUB = ("google-research-datasets/mbpp", "prompt+test+validation+train")

RELEASES = (
    Release("humaneval", *_TEST, ("humaneval/HumanEval.jsonl*",), humaneval,
            hub=("openai/openai_humaneval", "test", ("openai_humaneval",))),
    Release("mbpp", *_TEST, ("mbpp/mbpp.jsonl",), mbpp, hub=(*_MBPP_HUB, ("full",))),
    Release("mbpp-sanitized", *_TEST, ("mbpp/sanitized-mbpp.json",), mbpp, hub=(*_MBPP_HUB, ("sanitized",))),
    Release("apps", "code", "train", "program", ("apps/train.jsonl*", "apps/train/*/question.txt"), apps,
            apps_folders, ("codeparrot/apps", "train", ("all",)), revision=PARQUET),
    Release("livecodebench", *_TEST, ("livecodebench/test*.jsonl",), livecodebench,
            hub=("livecodebench/code_generation_lite", "test", ("default",)), revision=PARQUET),
)  # fmt: skip
