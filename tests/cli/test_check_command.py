"""check says that a file is whole, or in one line what is damaged."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from sigma_mem import SigmaMem
from sigma_mem.cli.app import run


def test_check_says_whether_a_file_is_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "m.db"
    with SigmaMem(["a", "b"], path, rank=2) as mem:
        mem.namespace("other", ["a"], rank=2)
        for _ in range(3):
            mem.feedback(mem.route(phi=np.array([1.0, 0.0])).id, {"a": True})
        assert run(["check", "-m", str(path)]) == 0  # beside a writer
    assert "is whole: 8 lines in 2 namespaces" in capsys.readouterr().out
    assert run(["check", "-m", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["lines"] == 8
    with closing(sqlite3.connect(path)) as db:
        db.execute("DROP TRIGGER record_is_never_changed")
        db.execute("UPDATE record SET body = x'00' WHERE seq = 5")
        db.commit()
    assert run(["check", "-m", str(path)]) == 1
    error = capsys.readouterr().err
    assert "record 5 is damaged" in error
    assert error.count("\n") == 1
    assert run(["check", "-m", str(tmp_path / "none.db")]) == 2
