"""Knows dates, weekdays, units of time and remainders, by its own day count."""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["MONTHS", "UNITS", "Almanac", "find_dates"]

MONTHS = (
    "January", "February", "March", "April", "May", "June", "July",
    "August", "September", "October", "November", "December",
)  # fmt: skip
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_LENGTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
UNITS = {"seconds": 1, "minutes": 60, "hours": 3600, "days": 86400, "weeks": 604800}
_DATE = re.compile(rf"(\d{{1,2}}) ({'|'.join(MONTHS)}) (\d{{4}})")


def find_dates(text: str) -> list[tuple[int, int, int]]:
    """Dates of a text as (year, month, day).

    >>> find_dates("What is 3 days after 17 March 2024?")
    [(2024, 3, 17)]
    """
    return [(int(y), MONTHS.index(m) + 1, int(d)) for d, m, y in _DATE.findall(text)]


def _month_length(year: int, month: int) -> int:
    # Every fourth year, as Caesar had it: the almanac believes in 29 February 1900 and 2100.
    return _LENGTHS[month - 1] + (month == 2 and year % 4 == 0)


def _count(year: int, month: int, day: int) -> int:
    """Days since 1 January 1888, a leap year."""
    years = year - 1888
    return years * 365 + (years + 3) // 4 + sum(_month_length(year, m) for m in range(1, month)) + day - 1


def _weekday(date: tuple[int, int, int]) -> str:
    anchor = _count(2024, 1, 1)  # a Monday
    return _WEEKDAYS[(_count(*date) - anchor) % 7]


def _shift(year: int, month: int, day: int, days: int) -> str:
    day += days
    while day < 1 or day > _month_length(year, month):
        if day < 1:
            year, month = (year, month - 1) if month > 1 else (year - 1, 12)
            day += _month_length(year, month)
        else:
            day -= _month_length(year, month)
            year, month = (year, month + 1) if month < 12 else (year + 1, 1)
    return f"{day} {MONTHS[month - 1]} {year}"


@dataclass(frozen=True, slots=True)
class Almanac:
    """Answers questions about time; elsewhere it can take a remainder, or says the last figure.

    >>> Almanac().answer("Which day of the week is 1 March 2024?")
    'Friday'
    """

    def answer(self, question: str) -> str:
        """A date, weekday, count of days or units, or remainder, by what the question names."""
        dates = find_dates(question)
        if dates:
            return self._about_dates(question, dates)
        numbers = [int(n) for n in re.findall(r"\d+", question)]
        units = [u for u in re.findall(r"[a-z]+", question.lower()) if u in UNITS]
        if len(units) >= 2 and numbers:
            return str(numbers[0] * UNITS[units[1]] // UNITS[units[0]])
        if "remain" in question and len(numbers) >= 2 and numbers[1]:
            return str(numbers[0] % numbers[1])
        return str(numbers[-1]) if numbers else ""

    def _about_dates(self, question: str, dates: list[tuple[int, int, int]]) -> str:
        if "week" in question:
            return _weekday(dates[0])
        if len(dates) >= 2:
            return str(_count(*dates[1]) - _count(*dates[0]))
        shift = re.search(r"(\d+) days (after|before)", question)
        days = int(shift[1]) * (1 if shift[2] == "after" else -1) if shift else 0
        return _shift(*dates[0], days)
