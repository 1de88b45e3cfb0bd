"""What is seen of an answer before it is judged."""

import math
import re

import numpy as np
import pytest

from sigma_mem.answers.features import FEATURES, _overlaps, text_features
from sigma_mem.events import Answer

QUESTION = "A train needs 3 hours for 240 km. How fast is it?"


def seen(*texts, canon="80", question=QUESTION):
    """By feature: its value for every text."""
    rows = text_features(question, [Answer(text, canon) for text in texts])
    return dict(zip(FEATURES, rows.T.tolist(), strict=True))


@pytest.mark.parametrize(
    ("feature", "more", "less"),
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
def test_each_feature_tells_two_texts_apart(feature, more, less):
    first, second = seen(more, less)[feature]
    assert first > second


def naive(question, answers):
    """By definition, one feature at a time."""

    def words(text):
        return re.findall(r"\w+", text.lower())

    def numbers(text):
        return set(re.findall(r"\d+\.\d+|\d+", text))

    rows = []
    for i, (text, canon) in enumerate(answers):
        found, runs = words(text), list(zip(*(words(text)[k:] for k in range(4)), strict=False))
        mine = set(found)
        others = [set(words(other)) for j, (other, _) in enumerate(answers) if j != i]
        rows.append(
            {
                "length": math.log(1 + len(text)),
                "repeats": sum(run in runs[:k] for k, run in enumerate(runs)) / len(runs) if runs else 0.0,
                "variety": len(mine) / (len(found) + 1),
                "digits": sum(char.isdigit() for char in text) / (len(text) + 1),
                "equations": math.log(1 + text.count("=")),
                "code": float("```" in text),
                "hedges": math.log(1 + sum(word in ("however", "wait") for word in found)),
                "names answer": math.log(1 + text.count(canon)),
                "of question": len(mine & set(words(question))) / (len(mine) + 1),
                "own numbers": len(numbers(text) - numbers(question)) / (len(numbers(text)) + 1),
                "like others": sum(len(mine & other) / (len(mine | other) + 1) for other in others)
                / len(others),
            }
        )
    return rows


def test_features_follow_their_definitions():
    question = "A Train needs 3 hours for 240.5 km. How fast is it?"
    answers = [
        ("Wait: 240.5 / 3 = 80.2, however 240 = 3 * 80. However, A it is, says Al.", "A"),
        ("so it is so so it is so and it is so so it is 80.2 km per hour", "so"),
        ("```print(240.5 / 3)``` gives 80.1666 km = 80 km", "80"),
        ("the train is fast", "x"),
    ]
    rows = text_features(question, [Answer(*answer) for answer in answers])
    for row, expected in zip(rows, naive(question, answers), strict=True):
        assert dict(zip(FEATURES, row.tolist(), strict=True)) == pytest.approx(expected, abs=6e-5)


def test_the_order_of_the_answers_changes_nothing_but_the_order():
    texts = ["divide 240 by 3", "240 by 3 is 80", "bananas are yellow", "", "80"]
    answers, order = [Answer(text, "80") for text in texts], [3, 1, 4, 0, 2]
    rows = text_features(QUESTION, answers)
    assert np.array_equal(rows[order], text_features(QUESTION, [answers[i] for i in order]))
    like = rows[:3, FEATURES.index("like others")]
    assert like[2] < min(like[:2])  # it shares no word with the others


def test_anything_can_be_looked_at():
    rows = text_features("", [Answer("", None), Answer("٣ ½ \x00 😀", None), Answer("x", "")])
    assert rows.shape == (3, len(FEATURES))
    assert np.isfinite(rows).all()
    assert text_features(QUESTION, []).shape == (0, len(FEATURES))


def test_only_the_end_of_a_long_text_is_looked_at():
    end = ("so it is 80. " * 400)[-4000:]
    short, long = text_features(QUESTION, [Answer(end, None), Answer("= 12 ``` however " * 5000 + end, None)])
    assert np.array_equal(short, long)
    assert short[0] == pytest.approx(math.log(4001), abs=1e-4)


def test_values_are_those_that_the_ledger_keeps():
    rows = text_features(QUESTION, [Answer("divide 240 by 3", "80"), Answer("80 it is", "80")])
    assert np.array_equal(rows, rows.round(4))
    assert not np.array_equal(rows, rows.round(3))


@pytest.mark.parametrize("n", [2, 16, 60])
def test_overlaps_are_means_over_the_others_that_say_something(n):
    rng = np.random.default_rng(n)
    said = [{f"w{k}" for k in rng.integers(0, 9000, size=rng.integers(0, 300))} for _ in range(n)]
    found = _overlaps(said, [1] * n)
    spoken = [mine for mine in said if mine]
    for mine, overlap in zip(said, found, strict=True):
        others = [other for other in spoken if other is not mine]
        each = [len(mine & other) / (len(mine | other) + 1) for other in others]
        assert overlap == (math.fsum(each) / max(1, len(each)) if mine else 0.0)  # bit for bit


def test_answers_that_were_given_several_times_are_read_once_and_count_as_often():
    texts = ["the first answer is 4", "another one says 5", "the first answer is 4", "none"]
    answers = [Answer(text, text[-1]) for text in texts]
    found = text_features("What?", answers)[:, FEATURES.index("like others")]
    words = [set(text.split()) for text in texts]
    for i, mine in enumerate(words):
        each = [len(mine & other) / (len(mine | other) + 1) for j, other in enumerate(words) if j != i]
        assert found[i] == pytest.approx(sum(each) / 3, abs=1e-4)
