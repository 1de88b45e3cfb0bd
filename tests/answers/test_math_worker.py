"""The process that simplifies math: what it imports, and what an interrupt leaves behind."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sigma_mem.answers.latex import MathWorker

COMPARE = 'from sigma_mem.answers import canon\nprint(canon("2(x+1)", "math"))\n'


def test_nothing_is_imported_from_the_working_directory(tmp_path: Path) -> None:
    for name in ("sympy", "math_verify"):
        (tmp_path / f"{name}.py").write_text('open("IMPORTED", "w").write("x")\n')
    (tmp_path / "program").mkdir()
    (tmp_path / "program" / "compare.py").write_text(COMPARE)
    ours = [folder for folder in sys.path if folder]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(["", os.curdir, *ours])}
    command = [sys.executable, "-P", tmp_path / "program" / "compare.py"]
    said = subprocess.check_output(command, text=True, cwd=tmp_path, env=environment)
    assert said == "2*x+2\n"
    assert not (tmp_path / "IMPORTED").exists()


class Interrupted(Exception):
    pass


def test_a_reply_that_an_interrupt_cut_off_is_not_taken_for_the_next_one() -> None:
    def interrupt(*_: object) -> None:
        raise Interrupted

    worker = MathWorker(timeout=10.0)
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        assert worker.simplify("x+x") == "2*x"
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with pytest.raises(Interrupted):
            worker.simplify("\\sum_{k=1}^{400} \\frac{1}{k^{9}} + 9^{9^{9^{9}}}")
        assert worker.simplify("y+y+y") == "3*y"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
        worker.close()
