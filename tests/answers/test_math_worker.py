"""The process that simplifies math: what it imports, and what an interrupt leaves behind."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from sigma_mem.answers import latex
from sigma_mem.answers.latex import MathWorker, same_math

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


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="processes cannot be stopped here")
def test_a_label_does_not_depend_on_how_long_its_process_had_to_wait() -> None:
    worker = MathWorker(timeout=60.0, processor=1)
    try:
        assert worker.simplify("x+x") == "2*x"
        process = worker._process
        assert process is not None
        process.send_signal(signal.SIGSTOP)
        threading.Timer(2.5, process.send_signal, [signal.SIGCONT]).start()
        assert worker.same("1/2", "\\frac{2}{4}")
    finally:
        worker.close()


def test_processor_time_is_bounded() -> None:
    worker = MathWorker(timeout=600.0, processor=1)
    try:
        assert worker.simplify("9^{9^{9^{9}}} + 1") is None
        assert worker.simplify("x+x") == "2*x"
    finally:
        worker.close()


def test_labels_are_bounded_by_processor_time(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[float, int | None]] = []

    class Noted(MathWorker):
        def __init__(self, timeout: float, processor: int | None) -> None:
            super().__init__(timeout, processor)
            made.append((timeout, processor))

    monkeypatch.setattr(latex, "MathWorker", Noted)
    latex._worker.cache_clear()
    latex.same_math.cache_clear()
    assert same_math("1/3", "\\frac{2}{6}")
    latex._worker.cache_clear()
    ((timeout, processor),) = made
    assert processor is not None
    assert processor * 10 < timeout


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
