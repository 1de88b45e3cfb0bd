"""Which answers are equal, by canon: the way people and models write them."""

import pytest

from sigma_mem.answers import canon
from sigma_mem.answers.canon import KINDS

PROGRAM = "def f(x):\n    if x:\n        x += 1\n    return x\n"


EQUAL = [
    ("auto", ["5", "<think>6? No.\nThe answer is 5.</think> 5", "…</think>\n5", "```\n5\n```", "５",
        "５．０"]),
    ("auto", ["B", "B. Paris", "(B)", "（Ｂ）", "Ｂ）", "**B**", "The answer is B. Paris",
        "Answer：Ｂ。理由"]),
    ("auto", ["B", "Ｂ．Paris", "B．巴黎", "B、巴黎", "B：巴黎", "Ｂ．パリ", "答案：B", "答案是B。因为…",
        "정답은 B입니다."]),
    ("auto", ["5", "Die Antwort ist 5.", "La respuesta es **5**.", "Réponse : 5", "La risposta è 5",
        "A resposta é: 5", "Ответ: 5.", "答えは5です。"]),
    ("auto", ["1234.5", "１，２３４．５", "$1,234.50", "<answer>1234.5</answer>",
        "<answer>\\boxed{1234.5}</answer>"]),
    ("auto", ['{"a": 1, "b": true}', '{"b":true,"a":1.0}', "```json\n{'b': True, 'a': 1}\n```"]),
    ("auto", ['[{"f": "{\\"x\\": 1}"}]', '[{"f":"{\\"x\\":1}"}]']),  # arguments of a call, as text
    ("auto", ["x^2", "x²"]),
    ("auto", [PROGRAM, f"```python\n{PROGRAM}```", PROGRAM.replace("x += 1", "x += 1   # one more")]),
    ("json", ['{"a": 1, "b": [2, null]}', 'Here:\n```json\n{"b": [2.0, null],\n "a": 1}\n```\nDone.',
        "{'b': [2, None], 'a': 1}", 'So it is {"b": [2, null], "a": 1}.',
        '<think>{"a": 7}</think>{"a": 1, "b": [2, null]}']),
    ("code", ["[1,2]", "[1, 2]", "```python\n[1, 2]\n```", "It prints\n```\n[1, 2]\n```"]),
    ("program", [PROGRAM, f"Sure!\n```python\n{PROGRAM}```\nIt adds 1.", PROGRAM.replace("\n", "\r\n"),
        "# add\n\n" + PROGRAM, PROGRAM.replace("\n", "  \n\n"), PROGRAM.replace("if x:", "if x:  # not 0"),
        f"<think>if…</think>\n{PROGRAM}", "".join(f"    {line}\n" for line in PROGRAM.splitlines())]),
    ("program", ["int f() {\n  return 1; // one\n}",
        "/* f */ int f() {\n  /* see\n below */\n  return 1;\n}"]),
    ("number", ["It costs １２ dollars", "12", "<think>13</think> so 12"]),
    ("choice", ["B. Paris", "B", "（Ｂ）", "The answer is option B", "<think>The answer is C.</think> B"]),
    ("choice", ["B", "答案：B", "答案是B，因为…", "La respuesta es (B).", "Die richtige Antwort ist B.",
        "B、巴黎", "Ｂ．Paris"]),
    ("text", ["The Eiffel Tower.", "eiffel tower", "Ｅｉｆｆｅｌ　ｔｏｗｅｒ", "```\nEiffel tower\n```",
        "Eiffel tower。"]),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "equal"), EQUAL)
def test_these_are_equal(kind, equal):
    forms = {text: canon(text, kind) for text in equal}
    assert len(set(forms.values())) == 1, forms
    assert None not in forms.values()


APART = [
    ("auto", ["B. Paris", "A. Paris", "E. coli", "E. faecalis", "I. Newton", "I. Kant", "e", "U.S."]),
    ("auto", ["2²", "22", "2^3", "½", "12"]),
    ("auto", ["if x:\n    a()\n    b()", "if x:\n    a()\nb()", "if X:\n    a()\n    b()"]),
    ("auto", ["[1, 2]", "(1, 2)", "[2, 1]", "{'a': (1,)}", "{'a': [1]}"]),
    ("json", ['{"a": 1}', '{"a": "1"}', '{"a": [1]}', '{"A": 1}', "[]", "{}", "null"]),
    ("program", ["if x:\n    a()\n    b()", "if x:\n    a()\nb()", "if x:\n    A()\n    b()",
        "if x:\n    a()\n    b()\nc()"]),
    ("program", ["x = a // 2", "x = a // 3", "x = '#1'", "x = '#2'", 'x = """\n\n"""', 'x = """\n"""']),
    ("program", ["#include <a>\nint x;", "#include <b>\nint x;", 'int x = "//1";', 'int x = "//2";']),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "apart"), APART)
def test_these_are_not(kind, apart):
    forms = [canon(text, kind) for text in apart]
    assert len(set(forms)) == len(apart), forms


@pytest.mark.parametrize(
    "text", ["no braces at all", "{not: json", "", "The answer is 5", "{1, 2}", "```\n```"]
)
def test_what_is_no_json_cannot_be_read(text):
    assert canon(text, "json") is None


def test_a_canon_of_a_canon_is_itself_where_the_kind_has_a_form_of_its_own():
    for kind, text in (
        ("json", '{"b": 1, "a": "x"}'),
        ("program", PROGRAM),
        ("choice", "B. Paris"),
        ("number", "1/8"),
    ):
        assert canon(canon(text, kind), kind) == canon(text, kind)


def test_reasoning_that_is_all_there_is_is_read():
    assert canon("<think>So the answer is 5.</think>") == "5"
    assert canon("<think>I think the answer is 5") == "5"


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_cannot_be_read(kind):
    assert canon("", kind) is canon(" \n", kind) is None
