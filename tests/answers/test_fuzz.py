"""Whatever a peer writes is read: no exception, in time linear in its length, through every canon."""

import random
import time
from contextlib import suppress
from itertools import chain, islice

import pytest

from sigma_mem.answers import canon, text_features
from sigma_mem.answers.canon import KINDS
from sigma_mem.answers.chat import question_text
from sigma_mem.errors import InputError
from sigma_mem.events import Answer
from soup import attacks, soups

LIMIT = 0.05  # seconds of processor time per 10 kB in UTF-8, or for any shorter text


def seconds(text, kind):
    """Processor time to read a text, per 10 kB."""
    started = time.process_time()
    form = canon(text, kind)
    spent = time.process_time() - started
    assert form is None or isinstance(form, str)
    return spent / max(1.0, len(text.encode("utf-8", "surrogatepass")) / 10_000)


def slowest(texts):
    """Read all texts through every canon; the slowest (seconds, kind, how the text starts, its length)."""
    worst = (0.0, "", "", 0)
    for text in texts:
        for kind in KINDS:
            spent = seconds(text, kind)
            if spent > worst[0]:  # measured again: the machine may have been busy with something else
                worst = max(worst, (min(spent, seconds(text, kind)), kind, text[:40], len(text)))
        rows = text_features(text, [Answer(text, canon(text)), Answer(text[::-1], None)])
        assert rows.shape == (2, 11)
    return worst


def test_some_thousand_texts():
    assert slowest(soups(random.Random(0), 1200, 3000)) < (LIMIT,)


def test_repetitions():
    assert slowest(islice(attacks(10_000), 0, None, 601)) < (LIMIT,)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("start", "piece", "end"),
    [
        ("", "the answer is ", ""),
        ('"answer": "a\\q', " ", "x"),
        ("a", "\u0301\u0327", ""),
        ("_", "\u0301\u0327", ""),
        ("f'{_", "\u0301\u0327", "}'"),
        ("answer is", " ", "x"),
        ('{"answer": ', "9", "}"),
        ("0x", "f", ""),
        ("", "[", ""),
        ("", '{"a":', ""),
        ("'''", "\\'''", ""),
        ("x =", " \t", "y"),
        ("```", "python\n```python\n", ""),
        ("", "10**", "10**6"),
    ],
)
def test_a_hundred_thousand_characters(kind, start, piece, end):
    text = start + piece * (100_000 // len(piece)) + end
    assert min(seconds(text, kind) for _ in range(2)) < LIMIT


@pytest.mark.endurance
def test_a_hundred_thousand_texts(capsys):
    texts = chain(attacks(2000), soups(random.Random(1), 20_000, 3000))
    worst = slowest(texts)
    with capsys.disabled():
        print(f"\nslowest: {worst[0] * 1e3:.1f} ms per 10 kB, {worst[1:]}")
    assert worst < (LIMIT,)


def test_chat_messages_of_any_shape_are_text_or_an_input_error():
    rng = random.Random(3)
    shapes = [None, 5, "x", "", [], {}, ["x"], [{}], [{"text": 5}], [{"text": "x"}], b"x", {"role": "user"}]
    for _ in range(2000):
        messages = [
            {"role": rng.choice(shapes), "content": rng.choice(shapes)} for _ in range(rng.randint(0, 3))
        ]
        with suppress(InputError):
            text = question_text(rng.choice([messages, *shapes, [rng.choice(shapes)]]))
            assert text is None or isinstance(text, str)
