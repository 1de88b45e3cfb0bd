r"""LaTeX answers: \frac{1}{2}, 0.5 and 1/2 are the same answer.

Mathematics is simplified by math-verify, in a process of its own that can be ended when an answer takes
too long: math-verify's own timeouts need signals, which work in the main thread only and do not interrupt
a long power of integers, and its import takes a second. `sigma_lab.collect.simplify` runs there.
"""

from __future__ import annotations

import atexit
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from functools import cache, lru_cache
from typing import Any

from sigma_mem.answers.canon import cautious_text
from sigma_mem.answers.forms import SUPERSCRIPT, plain_latex, whole_number
from sigma_mem.answers.stated import final_answer, narrow, unwrap, without_thoughts

_PROSE = 400  # characters; unmarked mathematics that is longer is reasoning, not an answer
_SECONDS = 10  # of processor time, for one answer
_STYLES = re.compile(r"\\(?:text|mathrm|textbf|mathbf|mbox|operatorname)\s*\{([^{}]*)\}")
_WORD = re.compile(r"(?<![\\A-Za-z])[A-Za-z]{3,}")
_FUNCTIONS = re.compile(r"(?:arc)?(?:sin|cos|tan)|sqrt|cot|sec|csc|log|exp|abs|min|max|gcd|lcm|mod")
_CONSTANTS = re.compile(r"(?<![\\A-Za-z])pi(?![A-Za-z])")
_SYMBOLS = str.maketrans(
    {"−": "-", "×": "\\times ", "·": "\\cdot ", "π": "\\pi ", "∞": "\\infty ", "°": "^\\circ "}
)
_ROOT = re.compile(r"√\s*(\d+|[A-Za-z]|\([^()]*\))")
_LOWERED = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")


def to_latex(text: str) -> str:
    """Write mathematical Unicode characters (×, π, √2, x²) as LaTeX."""
    if text.isascii():
        return text
    text = SUPERSCRIPT.sub(lambda m: f"^{{{m[0].translate(_LOWERED)}}}", text)
    return _ROOT.sub(r"\\sqrt{\1}", text.translate(_SYMBOLS))


def has_words(answer: str) -> bool:
    """Whether it holds words: to a parser of mathematics "no solution" is a product of letters."""
    return any(not _FUNCTIONS.fullmatch(word) for word in _WORD.findall(_STYLES.sub("", answer)))


def math_canon(text: str) -> str | None:
    r"""One form for all equal mathematical answers: a canon for `SigmaMem.vote`, as a function of the text.

    >>> math_canon("2(x+1)") == math_canon("2x + 2"), math_canon(r"so x = \boxed{0.50}")
    (True, '0.5')
    """
    text = narrow(without_thoughts(text))
    stated = final_answer(text)
    answer = to_latex(unwrap(text if stated is None else stated))
    if re.fullmatch(r"[\s_?.…-]*", answer) or (stated is None and len(answer) > _PROSE):
        return None
    plain = plain_latex(answer)
    if (value := whole_number(plain)) is not None:
        return value
    if len(answer) > _PROSE or not answer.isascii() or has_words(answer):
        return cautious_text(answer) or None
    return simplify_math(answer) or plain


@lru_cache(maxsize=65_536)
def simplify_math(answer: str) -> str | None:
    """Return one form for all equal mathematical answers, None if it cannot be parsed in time."""
    return _worker().simplify(_CONSTANTS.sub(r"\\\g<0>", answer))


@lru_cache(maxsize=65_536)
def same_math(right: str, answer: str) -> bool:
    """Whether math-verify holds an answer for equal to the right one; it accepts more than equal forms."""
    return _worker().same(*(_CONSTANTS.sub(r"\\\g<0>", text) for text in (right, answer)))


class MathWorker:
    """Parses and simplifies mathematical answers, one at a time; safe to share between threads.

    After ``seconds`` of processor time for one answer the process ends, and a new one is started for the
    next: what is read and what is right does not depend on how busy the machine is.
    """

    def __init__(self, seconds: int = _SECONDS) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None

    def simplify(self, answer: str) -> str | None:
        """Return one canonical form for all equal answers; None if unreadable or too slow."""
        form: str | None = self._reply(answer)
        return form

    def same(self, right: str, answer: str) -> bool:
        """Compare an answer with the right one; False if unreadable or too slow."""
        return self._reply([right, answer]) is True

    def _reply(self, request: str | list[str]) -> Any:
        with self._lock:
            if self._process is None or self._process.poll() is not None:
                self._end()
                self._process = self._start()
            process, reply = self._process, ""
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                process.stdin.write(json.dumps(request) + "\n")
                process.stdin.flush()
                reply = process.stdout.readline()
            except BrokenPipeError:
                pass
            finally:
                if not reply.endswith(
                    "\n"
                ):  # it has ended, or an interrupt left a reply that would come later
                    self._end()
        return json.loads(reply) if reply.endswith("\n") else None

    def close(self) -> None:
        """End the process."""
        with self._lock:
            self._end()

    def _end(self) -> None:
        if self._process is not None:
            with suppress(BrokenPipeError), self._process:  # closes its pipes and waits for its end
                self._process.kill()
            self._process = None

    def _start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "sigma_lab.collect.simplify", str(self._seconds)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
            env=_without_working_directory(os.environ),
        )


def _without_working_directory(environment: Mapping[str, str]) -> dict[str, str]:
    """An environment in which Python imports nothing from where it is started; ``-P`` is the other part."""
    here = os.path.realpath(os.curdir)
    folders = environment.get("PYTHONPATH", "").split(os.pathsep)
    kept = [folder for folder in folders if folder and os.path.realpath(folder) != here]
    return {**environment, "PYTHONPATH": os.pathsep.join(kept)}


@cache
def _worker() -> MathWorker:
    """The one of this process, ended with it."""
    worker = MathWorker()
    atexit.register(worker.close)
    return worker
