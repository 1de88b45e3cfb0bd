"""Releases of our own writing, the original ones if at hand, and a sandbox if there can be one."""

from pathlib import Path

import pytest

from sigma_mem.data.building import build_questions
from sigma_mem.data.sandbox import SandboxError, check_isolation

FIXTURES = Path(__file__).parent / "fixtures"
RAW = Path(__file__).parents[3] / "shared" / "data" / "raw"


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
