"""A bit of everything, nothing thoroughly."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .almanac import MONTHS, UNITS, find_dates
from .formula import evaluate, expressions, spell
from .interpreter import Interpreter, Unsupported
from .reader import best_sentence
from .runner import program_of

__all__ = ["Generalist"]


@dataclass(frozen=True, slots=True)
class Generalist:
    """Attempts every kind of task with a short method and a short span of attention.

    Sums of at most three figures; programs of few steps, without functions; the first four
    sentences of a passage, read as the reader reads them; months of thirty days.
    """

    steps: int = 60
    sentences: int = 4

    def answer(self, question: str) -> str:
        """An answer by the method that the question's look suggests."""
        program = program_of(question)
        if program is not None:
            return self._run(program)
        if question.startswith("Read the passage."):
            return self._read(question)
        dates = find_dates(question)
        if dates:
            return self._date(question, dates)
        units = [u for u in re.findall(r"[a-z]+", question) if u in UNITS]
        return self._convert(question, units) if len(units) == 2 else self._sum(question)

    def _sum(self, question: str) -> str:
        for tokens in expressions(question):
            value = evaluate(tokens[:5])
            if value is not None:
                return spell(value)
        return ""

    def _run(self, program: str) -> str:
        interpreter = Interpreter(self.steps, functions=False)
        try:
            interpreter.run(program)
        except Unsupported:
            return str((re.findall(r"\d+", program) or ["0"])[-1])
        return interpreter.printed[-1] if interpreter.printed else ""

    def _read(self, question: str) -> str:
        sentence, asked = best_sentence(question, self.sentences)
        if asked.startswith("Who"):
            return next(iter(re.findall(r"\b[A-Z][a-z]+\b", sentence)), "")
        found = re.findall(r"\d+", sentence) or re.findall(r"\w+", sentence) or [""]
        return str(found[-1])

    def _convert(self, question: str, units: list[str]) -> str:
        count = int((re.findall(r"\d+", question) or ["0"])[0])
        return str(count * UNITS[units[1]] // UNITS[units[0]])

    def _date(self, question: str, dates: list[tuple[int, int, int]]) -> str:
        day_of = [year * 360 + month * 30 + day for year, month, day in dates]
        if len(dates) == 2:
            return str(day_of[1] - day_of[0])
        shift = re.search(r"(\d+) days (after|before)", question)
        if shift is None:
            return "Monday"
        day = day_of[0] + int(shift[1]) * (1 if shift[2] == "after" else -1) - 31
        return f"{day % 30 + 1} {MONTHS[day // 30 % 12]} {day // 360}"
