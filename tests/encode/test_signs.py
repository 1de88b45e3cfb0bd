"""What is seen of an answer before it is judged."""

import numpy as np
import pytest

from sigma_mem.encode.signs import SIGNS, signs
from sigma_mem.events import Answer

QUESTION = "A train needs 3 hours for 240 km. How fast is it?"


def seen(*texts, canon="80", question=QUESTION):
    """By sign: its value for every text."""
    rows = signs(question, [Answer(text, canon) for text in texts])
    return dict(zip(SIGNS, rows.T.tolist(), strict=True))


@pytest.mark.parametrize(
    ("sign", "more", "less"),
    [
        ("length", "It is 80 km/h, I think.", "It is 80."),
        ("repeats", "so it is so so it is so so it is so", "so it is what it was before we came"),
        ("variety", "every word is another one", "word word word word word"),
        ("digits", "240/3 80", "two hundred"),
        ("equations", "240/3 = 80", "240/3 is 80"),
        ("code", "```80```", "80 80"),
        ("hedges", "However it seems 80", "Therefore it is 80"),
        ("names answer", "80, so 80", "81, so 81"),
        ("of question", "fast train needs hours", "quick wagon takes days"),
        ("own numbers", "80 and 160", "240 and 3"),
    ],
)
def test_each_sign_tells_two_texts_apart(sign, more, less):
    first, second = seen(more, less)[sign]
    assert first > second


def test_the_answer_that_shares_words_with_the_others_is_like_them():
    like = seen("divide 240 by 3", "240 by 3 is 80", "bananas are yellow")["like others"]
    assert like[0] > like[2]
    assert like[1] > like[2]


def test_the_order_of_the_answers_changes_nothing_but_the_order():
    texts = ["divide 240 by 3", "240 by 3 is 80", "bananas are yellow", "", "80"]
    answers = [Answer(text, "80") for text in texts]
    order = [3, 1, 4, 0, 2]
    assert np.array_equal(signs(QUESTION, answers)[order], signs(QUESTION, [answers[i] for i in order]))


def test_anything_can_be_looked_at():
    rows = signs("", [Answer("", None), Answer("٣ ½ \x00 😀", None), Answer("x", "")])
    assert rows.shape == (3, len(SIGNS))
    assert np.isfinite(rows).all()
    assert signs(QUESTION, []).shape == (0, len(SIGNS))


def test_only_the_end_of_a_long_text_is_looked_at():
    end = "so it is 80. " * 400
    short, long = signs(QUESTION, [Answer(end, None), Answer("= 12 ``` however " * 5000 + end, None)])
    assert np.array_equal(short, long)


def test_values_are_those_that_the_ledger_keeps():
    rows = signs(QUESTION, [Answer("divide 240 by 3", "80"), Answer("80 it is", "80")])
    assert np.array_equal(rows, rows.round(4))
