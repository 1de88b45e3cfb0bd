"""Mathematics as answers: equal ones have one form, and the process that simplifies them can be ended."""

import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from sigma_lab.collect.math_answers import MathWorker, math_canon, same_math

COMPARE = 'from sigma_lab.collect.math_answers import math_canon\nprint(math_canon("2(x+1)"))\n'


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


@pytest.fixture
def worker() -> Iterator[MathWorker]:
    with closing(MathWorker(seconds=1)) as made:
        yield made


def test_a_label_does_not_depend_on_how_long_its_process_had_to_wait(worker: MathWorker) -> None:
    assert worker.simplify("x+x") == "2*x"
    process = worker._process
    assert process is not None
    process.send_signal(signal.SIGSTOP)
    threading.Timer(2.5, process.send_signal, [signal.SIGCONT]).start()
    assert worker.same("1/2", "\\frac{2}{4}")


def test_processor_time_is_bounded(worker: MathWorker) -> None:
    assert worker.simplify("9^{9^{9^{9}}} + 1") is None
    assert worker.simplify("x+x") == "2*x"


class Interrupted(Exception):
    pass


def test_a_reply_that_an_interrupt_cut_off_is_not_taken_for_the_next_one() -> None:
    def interrupt(*_: object) -> None:
        raise Interrupted

    worker = MathWorker()
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


@pytest.mark.parametrize(
    "equal",
    [
        [r"\frac{1}{2}", "1/2", "0.5", r"$\dfrac12$", "so x = \\boxed{0.50}", r"x=\frac{2}{4}"],
        ["2(x+1)", "2x + 2", "2*x+2"],
        ["x^2+1", "x²+1", "\\boxed{1+x^{2}}", "<think>x</think>$x^2+1$"],
        [r"\sqrt{8}", r"2\sqrt{2}", "sqrt(8)", "2√2"],
        [r"(1+\sqrt{2})^2", r"3+2\sqrt2"],
        ["-4, -5", r"\{-5,-4\}"],
        [r"64 + 48 = 112", "112"],
        [r"12\pi", "12π", "12pi"],
        ["No solution", "no solution."],
        [r"\frac{1}{\sqrt{2}}", r"\frac{\sqrt{2}}{2}"],
    ],
)
def test_equal_math_gets_the_same_canon(equal: list[str]) -> None:
    assert len({math_canon(e) for e in equal}) == 1
    assert math_canon(equal[0]) is not None


def test_different_math_stays_apart() -> None:
    answers = ["1/2", "1/3", "x", "x+1", r"\sqrt{2}", "1.41", "(1,2)", "[1,2]"]
    answers += ["no solution", "infinitely many"]
    assert len({math_canon(a) for a in answers}) == len(answers)


@pytest.mark.parametrize("text", ["", " ", "___", "so " * 500, '{"answer": " "}'])
def test_math_that_cannot_be_read(text: str) -> None:
    assert math_canon(text) is None


def test_a_bomb_ends_even_without_a_parent() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "sigma_lab.collect.simplify", "5"],
        input='"x+x"\n"9^{9^{9^{9}}}"\n',
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert run.stdout == '"2*x"\n'
    assert run.returncode == -signal.SIGPROF


def test_math_works_from_any_thread() -> None:
    seen: list[str | None] = []
    threads = [
        threading.Thread(target=lambda i=i: seen.append(math_canon(f"{i}y+{i}y"))) for i in range(2, 6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(str, seen)) == ["10*y", "4*y", "6*y", "8*y"]


def test_an_answer_is_compared_with_the_right_one() -> None:
    assert same_math("1 < x \\le 2", "(1, 2]")  # more than equal forms
    assert not same_math("(1, 2]", "(1, 2)")
    assert not same_math("1", "\\frac{")


def test_math_soup_through_the_worker(worker: MathWorker) -> None:
    """Short texts of LaTeX and numbers; each is read or given up within the time limit."""
    rng = random.Random(4)
    parts = ["\\frac", "\\sqrt", "\\ud800", "\ud800", "\x00", "\n", "9^9", *"{}()1x^="]
    for _ in range(25):
        form = worker.simplify("".join(rng.choices(parts, k=rng.randint(1, 12))))
        assert form is None or isinstance(form, str)
