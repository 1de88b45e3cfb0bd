from __future__ import annotations

import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sigma_mem.answers import canon
from sigma_mem.answers.stated import final_answer
from sigma_mem.errors import InputError
from sigma_mem.streams import Stream

FORMS = {
    "auto": [
        ("391", "391"), (" 391. ", "391"), ("The answer is 391.", "391"),
        ("I add them up. Final answer: **391**", "391"), ("#### 391", "391"),
        ('{"reasoning": "…", "answer": "391"}', "391"), ("$1,234.50", "1234.5"), ("007", "7"), ("-0", "0"),
        ("1e3", "1000"), (r"so $x = \boxed{\frac{1}{2}}$", "0.5"), ("1/3", "1/3"), ("2/6", "1/3"),
        ("B", "B"), ("b)", "B"), ("(B)", "B"), ("B) Paris", "B"), ("The answer is (B). Q: what next?", "B"),
        ("Final Answer:\nThe answer is A. File it.", "A"), ("I. Newton", "i newton"), ("Paris", "paris"),
        ("The Eiffel Tower.", "eiffel tower"), ("“Eiffel  tower”", "eiffel tower"),
        ("[1,2 , 'a']", "[1, 2, 'a']"), ("{'b': 1, 'a': (2,)}", "{'b': 1, 'a': (2,)}"), ("C++", "c++"),
        ("C", "C"), ("3:45", "3:45"), ("the", "the"), ("", None), (" \n", None),
    ],
    "number": [
        ("She pays $1,234.50 in all.", "1234.5"), ("He has 3, she has 4, so 7", "7"),
        ("The answer is 84 grains, not 85.", "84"), ('{"answer": "$780"} and then $600 + $60', "780"),
        ('{"answer": "Cannot be determined from 3"}', "3"), ('{"answer": "unlimited"} 3', None),
        ("x - 2", "2"), ("it is -2", "-2"), ("(-$3.20)", "-3.2"), ("$-3", "-3"), ("3/4 cup", "0.75"),
        ("106.09000000000001", "106.09"), ("12345678901234567890", "12345678901234567890"), ("1e999", None),
        ("none", None),
    ],
    "choice": [
        ("The answer is (F).", "F"), ("The answer is **F. Her procedure**", "F"),
        ("Answer: D. 50 m.p.h.", "D"), ("C. Stakeholders", "C"), ("h", "H"),
        ("The answer is (F). The answer is (G).", "F"), ("I do not know", None),
        ("The answer is not among the choices.", None),
    ],
    "code": [
        ("[1,2]", "[1, 2]"), ("'abc'", "abc"), ("abc", "abc"), ("'line\nbreak'", "line\nbreak"),
        ("{3, 1, 2}", "{1, 2, 3}"), ("set()", "set()"), ('{"answer": ["a", "b"]}', "['a', 'b']"),
        ("{1: 2, 1: 3}", "{1: 3}"), (r"'\d'", r"\d"), ("[1if 2 else 3]", "[1if 2 else 3]"), ("''", ""),
        ("", None), ("so " * 200, None), ("(" * 5000, None),
    ],
    "text": [
        ("The Eiffel Tower!", "eiffel tower"), ("Answer: an  apple", "apple"), ("U.S.", "us"),
        ("Ｐａｒｉｓ", "paris"), ("+", "+"), (" ", None),
    ],
}  # fmt: skip


@pytest.mark.parametrize(("kind", "text", "form"), [(kind, *pair) for kind in FORMS for pair in FORMS[kind]])
def test_the_form_of_a_text(kind, text, form):
    assert canon(text, kind) == form


def test_different_answers_stay_apart() -> None:
    answers = ["C", "C++", "C#", "3:45", "345", "1/2", "12", "x^2", "x2", "2024-01-02", "20240102"]
    answers += ["-5", "5", "[1]"]
    assert len({canon(a) for a in answers}) == len(answers)


def test_sets_are_written_alike_in_every_process() -> None:
    run = "from sigma_mem.answers import canon; print(canon(\"[{'x', 'y', 'z', 'w'}]\", 'code'))"
    seeds = [os.environ | {"PYTHONHASHSEED": seed} for seed in "123"]
    seen = {subprocess.check_output([sys.executable, "-c", run], env=env, text=True) for env in seeds}
    assert seen == {"[{'w', 'x', 'y', 'z'}]\n"}


def test_an_escaped_brace_does_not_close_a_box() -> None:
    cases = r"f(x)=\left\{\begin{array}{l}1\\{2}\end{array}\right."
    assert final_answer(rf"Thus \boxed{{{cases}}}, as claimed.") == cases
    assert final_answer(r"\boxed{\{1,2\}} is the set") == r"\{1,2\}"


def test_importing_and_auto_pull_no_extra() -> None:
    run = "import sys; from sigma_mem.answers import canon; canon(r'\\boxed{x^2}'); canon('[1]');"
    run += "print([m for m in ('sympy', 'math_verify', 'backports', 'torch') if m in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", run], text=True) == "[]\n"


@given(st.text(max_size=300))
def test_any_text_is_read_without_error_and_twice_the_same(text: str) -> None:
    for kind in ("auto", "number", "choice", "code", "text"):
        form = canon(text, kind)  # type: ignore[arg-type]
        assert form == canon(text, kind)  # type: ignore[arg-type]
        assert form is None or isinstance(form, str)


@given(st.integers(-(10**30), 10**30))
def test_integers_are_their_own_canon(value: int) -> None:
    assert canon(str(value)) == canon(f"{value:,}", "number") == str(value)


@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-1000, max_value=1000, places=3))
def test_a_canon_is_stable(value: object) -> None:
    form = canon(str(value), "number")
    assert form is not None
    assert canon(form, "number") == form
    assert float(form) == float(str(value))


def test_unknown_kind() -> None:
    with pytest.raises(InputError, match="expected one of auto, number, choice"):
        canon("x", "essay")  # type: ignore[arg-type]


@pytest.mark.parametrize(("dataset", "kind", "least"), [("gsm", "number", 0.99), ("crux", "code", 0.98)])
def test_recorded_canons_of_zeroeval(zeroeval: Stream, dataset: str, kind: str, least: float) -> None:
    answers = [a for e in zeroeval if e.dataset == dataset for a in e.answers.values()]
    assert sum(canon(a.text, kind) == a.canon for a in answers) / len(answers) > least  # type: ignore[arg-type]


def test_recorded_canons_of_mmlu_pro(mmlu_pro: Stream) -> None:
    answers = [a for e in mmlu_pro.select(seed=0, limit=1000) for a in e.answers.values()]
    assert sum(canon(a.text, "choice") == a.canon for a in answers) / len(answers) > 0.97
