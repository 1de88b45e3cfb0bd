import json
from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sigma_lab.collect.questions import Question, Reference, read_questions, write_questions
from sigma_mem.errors import InputError

TEXT = st.text(st.characters(codec="utf-8"))
QUESTIONS = st.lists(
    st.builds(
        Question,
        id=TEXT,
        dataset=TEXT,
        domain=TEXT,
        kind=TEXT,
        split=TEXT,
        prompt=TEXT,
        center_prompt=TEXT,
        grader=TEXT,
        reference=st.builds(
            Reference,
            st.lists(TEXT, max_size=3).map(tuple),
            TEXT,
            st.dictionaries(TEXT, st.lists(st.lists(st.integers()))),
        ),
        choices=st.lists(st.tuples(TEXT, TEXT), max_size=3).map(tuple),
    ),
    min_size=1,
    max_size=4,
    unique_by=lambda question: question.id,
)


@given(questions=QUESTIONS)
@pytest.mark.parametrize("name", ["q.jsonl", "q.jsonl.gz"])
def test_what_is_written_is_read(tmp_path_factory, name, questions):
    file = tmp_path_factory.mktemp("q") / name
    write_questions(questions, file)
    assert read_questions(file) == questions
    before = file.read_bytes()
    write_questions(questions, file)
    assert file.read_bytes() == before


RECORD = asdict(Question("a/1", "a", "rag", "", "dev", "p", "c", "span", Reference(("x",))))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"prompt": None}, "line 2: Expected `str`, got `null` - at `.*prompt`"),
        ({"reference": "x"}, "line 2: Expected `object`, got `str` - at `.*reference`"),
        ({"reference": {"answers": [1]}}, "line 2: Expected `str`, got `int`"),
        ({"choices": [["A"]]}, "line 2: Expected `array` of length 2"),
        ({"id": "b"}, "line 2: 'b' is there twice"),
    ],
)
def test_an_error_names_file_and_line(tmp_path, change, message):
    file = tmp_path / "q.jsonl"
    file.write_text(json.dumps(RECORD | {"id": "b"}) + "\n" + json.dumps(RECORD | change) + "\n")
    with pytest.raises(InputError, match=r"q\.jsonl, " + message.replace("'", ".")):
        read_questions(file)


@pytest.mark.parametrize(("text", "message"), [("{", "as JSON"), ("[1]", "got `array`"), ("", "is empty")])
def test_a_file_that_holds_no_questions_is_refused(tmp_path, text, message):
    file = tmp_path / "q.jsonl"
    file.write_text(text)
    with pytest.raises(InputError, match=message):
        read_questions(file)
