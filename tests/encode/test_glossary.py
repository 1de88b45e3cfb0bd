"""Prompts of other languages in English words."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sigma_mem.encode.glossary import MAX_CHARACTERS, in_english
from sigma_mem.encode.sentence import typical_prompts


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Schreibe ein kurzes Gedicht über den Herbst.", "write shorten poem autumn"),
        ("Combien coûte une chambre d'hôtel ?", "how many costs hotel"),
        ("¿Qué ley protege a los inquilinos?", "law tenant"),
        ("Przetłumacz to zdanie na angielski.", "translate sentence English"),
        ("Hoe bereken ik het gemiddelde in Excel?", "how calculate Excel"),
        ("Напиши функцию, которая сортирует список.", "write function list sort"),
        ("请翻译这个句子。", "translate sentence"),
        ("この記事を要約してください。", "article summarize"),
        ("이 문장을 영어로 번역해 줘", "sentence English translate"),
        ("इस लेख का सारांश लिखिए।", "article summarize write"),
        ("ما هي عاصمة اليابان؟", "what capital Japan"),
        ("Bu cümleyi İngilizceye çevir.", "sentence translate English"),
    ],
)
def test_words_become_english(text: str, words: str) -> None:
    found = in_english(text).split()
    assert set(words.split()) <= set(found), found


def test_english_is_left_alone() -> None:
    texts = typical_prompts()
    changed = [text for text in texts if in_english(text) != text[:MAX_CHARACTERS]]
    assert len(changed) < 0.01 * len(texts), changed[:5]
    for text in (
        "Explain Newton's second law.",
        "Schrödinger and his wife met in a café.",
        "x = a + b * c",
        "",
    ):
        assert in_english(text) == text


def test_numbers_code_and_names_stay() -> None:
    found = in_english("Warum gibt print(a[17]) in der Datei Lisa.py einen Fehler?")
    assert {"print(a[17])", "Lisa.py"} <= set(found.replace(" . ", ".").split())


def test_accents_and_full_width_letters_do_not_matter() -> None:
    assert in_english("übersetze das ins Französische") == in_english("UBERSETZE das ins Franzosische")
    assert "17" in in_english("１７かける２３は？")


@given(st.text(st.characters(exclude_categories=("Cs",)), max_size=300))
def test_any_text_is_read(text: str) -> None:
    assert len(in_english(text)) <= MAX_CHARACTERS


def test_time_is_linear() -> None:
    for text in ("水" * 10**6, "aé " * 10**5, "wie " * 10**5, "ab" * 10**6, "ال" * 10**5):
        start = time.process_time()
        in_english(text)
        assert time.process_time() - start < 2.0
