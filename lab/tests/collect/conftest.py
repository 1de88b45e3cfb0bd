"""An endpoint, files of questions, releases, and a sandbox."""

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sigma_lab.collect.question_sets import build_questions
from sigma_lab.collect.sandbox import SandboxError, check_isolation

from .loopback import LoopbackEndpoint


@pytest.fixture
def endpoint() -> Iterator[LoopbackEndpoint]:
    with closing(LoopbackEndpoint()) as server:
        yield server


@pytest.fixture
def other_endpoint() -> Iterator[LoopbackEndpoint]:
    with closing(LoopbackEndpoint()) as server:
        yield server


@pytest.fixture
def questions(tmp_path: Path) -> Callable[..., Path]:
    """Writes a file of questions with these prompts."""

    def write(*prompts: str, **more: Any) -> Path:
        lines = [{"id": f"q{i}", "prompt": prompt, "reference": {"answers": ["secret"]}, **more}
                 for i, prompt in enumerate(prompts)]  # fmt: skip
        path = tmp_path / "q.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        return path

    return write


# --- releases of our own writing, the original ones if at hand, and a sandbox if there can be one ---

FIXTURES = Path(__file__).parent / "fixtures"
RAW = Path(__file__).parents[4] / "shared" / "data" / "raw"


@pytest.fixture
def built():
    """A function from a dataset's name to its questions in the fixtures, by id."""
    return lambda name: {question.id: question for question in build_questions([name], FIXTURES).questions}


@pytest.fixture(scope="session")
def raw() -> Path:
    if not RAW.is_dir():
        pytest.skip(f"{RAW} is absent: the original release files are not part of the package")
    return RAW


@pytest.fixture(scope="session")
def isolated() -> None:
    try:
        check_isolation()
    except SandboxError as error:
        pytest.skip(str(error))
