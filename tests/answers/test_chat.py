import pytest

from sigma_mem.answers.chat import question_text
from sigma_mem.errors import InputError

IMAGE = {"type": "image_url", "image_url": {"url": "data:…"}}


@pytest.mark.parametrize(
    ("question", "text"),
    [
        (None, None),
        ("17 * 23?", "17 * 23?"),
        ([{"role": "user", "content": "17 * 23?"}], "17 * 23?"),
        ([{"role": "system", "content": "Be brief."}, {"role": "user", "content": " 17 * 23? "}], "17 * 23?"),
        (
            (
                {"role": "user", "content": "17 * 23?"},
                {"role": "assistant", "content": None, "tool_calls": []},
                {"role": "assistant", "content": "391"},
                {"role": "user", "content": "And 18 * 23?"},
            ),
            "17 * 23?\n\nAnd 18 * 23?",
        ),
        (
            [{"role": "user", "content": [{"type": "text", "text": "What is"}, IMAGE, {"text": "this?"}]}],
            "What is\nthis?",
        ),
        ([{"role": "system", "content": "Sort the list."}], "Sort the list."),
    ],
)
def test_the_text_of_a_question(question, text):
    assert question_text(question) == text


@pytest.mark.parametrize(
    ("question", "message"),
    [
        (5, "the question is 5"),
        ({"role": "user", "content": "x"}, "expected text, or chat messages"),
        (["x"], "a message of the question is 'x'"),
        ([{"role": "user", "content": 5}], "the content of a message is 5"),
        ([{"role": "user", "content": ["x"]}], "the content of a message"),
        ([], "hold no text"),
        ([{"role": "user", "content": [IMAGE]}], "images are not read"),
    ],
)
def test_what_is_no_question(question, message):
    with pytest.raises(InputError, match=message):
        question_text(question)
