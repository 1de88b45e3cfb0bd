"""Command lines as tests call them, on a memory that a variable names."""

import json

import pytest

from sigma_mem import SigmaMem
from sigma_mem.cli.app import run

QUESTION = "What is 17 * 23?"
SECRET = "secret-of-tests"  # the password in every address of the tests' database


@pytest.fixture
def call(capsys):
    """Run a command line; return its output or, for an exit code that is not 0, its one line of error."""

    def run_it(*arguments, code=0):
        assert run([str(argument) for argument in arguments]) == code
        out, err = capsys.readouterr()
        assert SECRET not in out + err
        assert err.count("\n") == (code > 0)
        assert err.startswith("sigma-mem: ") or not code
        return err.strip() if code else out

    return run_it


@pytest.fixture
def values(call):
    """Run a command line with --json; return what it found."""
    return lambda *arguments: json.loads(call(*arguments, "--json"))


@pytest.fixture
def file(tmp_path, monkeypatch):
    """The file of a memory that is not there yet, which commands take without --memory."""
    monkeypatch.setenv("SIGMA_MEM_MEMORY", str(tmp_path / "memory.db"))
    return tmp_path / "memory.db"


@pytest.fixture
def memory(file):
    """The same with six votes, on which ann was right and the others were wrong."""
    with SigmaMem(["ann", "bob", "cy"], file, encoder="hashed") as mem:
        for _ in range(6):
            d = mem.vote(QUESTION, {"ann": "391", "bob": "391", "cy": "381"})
            mem.feedback(d.id, {"ann": True, "bob": False, "cy": False}, source="tests")
    return file
