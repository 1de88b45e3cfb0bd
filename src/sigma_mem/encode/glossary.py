"""Prompts in other languages, as far as a glossary of some 8,000 words goes, in English.

The static vectors are English. ``data/glossary.txt`` holds 240 English phrases with their words in fourteen
languages, so that a German, Polish, Chinese or Arabic prompt becomes a few English words about the same
things, which the vectors can place. It is not a translation. English texts are returned unchanged.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib import resources

MAX_CHARACTERS = 8192  # of a text; what a question is about shows long before, and time stays bounded
_JUDGED = 400  # characters that identify the language
_LONGEST = 12  # letters of a stem
_LATIN = "A-Za-zÀ-ɏ"
_OTHERS = (
    "\u0400-\u04ff",  # Cyrillic
    "\u0600-\u06ff",  # Arabic
    "\u0900-\u097f",  # Devanagari, with its vowel signs
    "\uac00-\ud7af",  # Korean
    "\u3005\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff",  # Chinese and Japanese, without spaces
)
_KNOWN_LETTER = re.compile(f"[{_LATIN}{''.join(_OTHERS)}]")
_TELLING = 12  # letters, or half as many words, that identify a language
_LATIN_WORD = re.compile(f"[{_LATIN}]+")
_OTHER_SCRIPT = re.compile(f"[{''.join(_OTHERS)}]")
_WORD = re.compile("|".join(f"[{script}]+" for script in (_LATIN, *_OTHERS)))
_FOLDED = str.maketrans({
    "ł": "l", "ı": "i", "ß": "ss", "ø": "o", "đ": "d", "æ": "ae", "œ": "oe", "ё": "е",
    "أ": "ا", "إ": "ا", "آ": "ا", "ة": "ه", "ى": "ي", "ـ": None, "़": None, "ँ": "ं",
})  # fmt: skip
_ARTICLES = ("وال", "بال", "لل", "ال", "و", "ب", "ل")  # Arabic, written together with the word
_LAST_LATIN = "ɐ"
_FIRST_WITHOUT_SPACES = "\u3005"  # Chinese, Japanese and, written with spaces but without borders, Korean
_ENDINGS = frozenset("aeioyаеиоуыяьйه")


def in_english(text: str) -> str:
    """The text if it is English; else with the words that the glossary knows in English.

    >>> in_english("What is the capital of France?")
    'What is the capital of France?'
    >>> in_english("Welcher Fluss ist das?").split()[:3]
    ['which', 'river', 'mountain']
    """
    text = text[:MAX_CHARACTERS]
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)[:MAX_CHARACTERS]
    language = _language(text)
    if language == "en" and (text.isascii() or not _OTHER_SCRIPT.search(text)):
        return text
    return _glossed(text, language)[:MAX_CHARACTERS]


def reads_language(text: str) -> bool:
    """Whether a text is in English or a language of the glossary; also if it is too short to tell.

    >>> [reads_language(text) for text in ("Wie viele Tage hat ein Jahr?", "Πόσες μέρες έχει ο χρόνος;")]
    [True, False]
    """
    letters = [c for c in text[:_JUDGED] if c.isalpha()]
    if len(letters) < _TELLING:
        return True
    if sum(1 for c in letters if _KNOWN_LETTER.match(c)) < 0.5 * len(letters):
        return False
    words = _LATIN_WORD.findall(text[:_JUDGED])
    mostly_latin = sum(map(len, words)) > 0.5 * len(letters)
    return not (mostly_latin and len(words) >= _TELLING // 2 and _language(text) == "")


@dataclass
class _Stems:
    """Stems with their English, and phrases of several words by the first of them."""

    stems: dict[str, str] = field(default_factory=dict)
    phrases: dict[str, list[tuple[list[str], str]]] = field(default_factory=dict)

    def add(self, words: str, english: str) -> None:
        first, *rest = _folded(words).split()
        if rest:
            self.phrases.setdefault(first, []).append((rest, english))
            return
        self.stems.setdefault(first, english)
        if len(first) >= 5 and first[-1] in _ENDINGS:
            self.stems.setdefault(first[:-1], english)

    def phrase(self, words: list[str], start: int) -> tuple[int, str] | None:
        """How many words from here on are a phrase, and its English."""
        for rest, english in self.phrases.get(words[start], ()):
            found = words[start + 1 : start + 1 + len(rest)]
            if len(found) == len(rest) and all(map(str.startswith, found, rest)):
                return 1 + len(rest), english
        return None

    def stem(self, word: str, shortest: int = 1) -> str | None:
        """English of the longest stem that the word begins with."""
        for n in range(min(len(word), _LONGEST), shortest - 1, -1):
            # The shorter the stem, the shorter the ending that may follow it.
            if (n >= 5 or len(word) - n <= (0, 0, 0, 1, 3)[n]) and word[:n] in self.stems:
                return self.stems[word[:n]]
        return None

    def within(self, word: str) -> Iterator[str]:
        """English of the stems in a run of signs without spaces, the longest first at every place."""
        place = 0
        while place < len(word):
            for n in range(min(len(word) - place, 6), 0, -1):
                if (english := self.stems.get(word[place : place + n])) is not None:
                    yield english
                    place += n
                    break
            else:
                place += 1


def _folded(word: str) -> str:
    """Lower case, without accents on Latin letters and without the spelling variants of other scripts."""
    word = word.casefold()
    if word.isascii():
        return word
    word = word.translate(_FOLDED)
    if word[:1] > "ɏ":
        return word
    return "".join(c for c in unicodedata.normalize("NFKD", word) if not unicodedata.combining(c))


def _language(text: str) -> str:
    """Language of the words in Latin letters, by function words and accents; "" if there are none."""
    counts: dict[str, int] = {}
    known = _function_words()
    accents = 0
    for word in _LATIN_WORD.findall(text[:_JUDGED].casefold()):
        if not word.isascii():
            accents += 1
        elif len(word) == 1:  # more often a variable or a unit than a word
            continue
        for language in known.get(word, ()):
            counts[language] = counts.get(language, 0) + 1
    english = counts.pop("en", 0)
    best = max(counts, key=lambda language: counts[language], default="")
    return "en" if english and english >= counts.get(best, 0) + accents else best


def _glossed(text: str, language: str) -> str:
    """The text with every word that is known in English, each phrase once; function words are left out."""
    found = list(_WORD.finditer(text))
    words = [_folded(match.group()) for match in found]
    said: set[str] = set()
    out: list[str] = []
    place = end = 0
    while place < len(found):
        match = found[place]
        out.append(text[end : match.start()])
        taken, english = _look_up(words, place, language)
        if english is None:
            latin = words[place] <= _LAST_LATIN
            dropped = not latin or language in _function_words().get(match.group().casefold(), ())
            english = " " if dropped and language != "en" else match.group()
        elif english in said:
            english = " "
        else:
            said.add(english)
            english = f" {english} "
        out.append(english)
        place += taken
        end = found[place - 1].end()
    out.append(text[end:])
    return " ".join("".join(out).split())


def _look_up(words: list[str], place: int, language: str) -> tuple[int, str | None]:
    """How many words were looked up from here on, and their English."""
    word, every = words[place], _tables()[""]
    if word <= _LAST_LATIN:
        if language == "en":
            return 1, None
        tables = [every] if language == "" else [_tables()[language], every]
        for table in tables:
            if phrase := table.phrase(words, place):
                return phrase
        if language == "":  # a word of English looks much like one of French: long stems only
            return 1, every.stem(word, 6)
        if word in tables[0].stems or language not in _function_words().get(word, ()):
            return 1, tables[0].stem(word) or every.stem(word, 4)
        return 1, None
    if phrase := every.phrase(words, place):
        return phrase
    if word >= _FIRST_WITHOUT_SPACES:
        return 1, " ".join(every.within(word)) or None
    if english := every.stem(word):
        return 1, english
    bare = (word.removeprefix(article) for article in _ARTICLES if word.startswith(article))
    return 1, next(filter(None, (every.stem(rest, 2) for rest in bare)), None)


@cache
def _tables() -> dict[str, _Stems]:
    """Stems of every language, and under "" those of all."""
    lines = _read("glossary.txt")
    languages = lines[0].split("|")[1:]
    tables = {language: _Stems() for language in ("", *languages)}
    for line in lines[1:]:
        english, *columns = line.split("|")
        for language, column in zip(languages, columns, strict=True):
            for words in column.split("/"):
                tables[language].add(words, english)
                tables[""].add(words, english)
    return tables


@cache
def _function_words() -> dict[str, tuple[str, ...]]:
    """The languages of every function word."""
    out: dict[str, tuple[str, ...]] = {}
    for line in _read("function_words.txt"):
        language, words = line.split(": ")
        for word in set(words.split()):
            out[word] = (*out.get(word, ()), language)
    return out


def _read(name: str) -> list[str]:
    text = resources.files(__package__).joinpath(f"data/{name}").read_text(encoding="utf-8")
    return unicodedata.normalize("NFKC", text).splitlines()
