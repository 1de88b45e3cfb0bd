"""Dates, weekdays and units of time; the truth comes from Python's datetime."""

from __future__ import annotations

import datetime as dt
import random

__all__ = ["calendar"]

_UNITS = (("weeks", "days", 7), ("hours", "minutes", 60), ("days", "hours", 24), ("minutes", "seconds", 60))


def _spoken(day: dt.date) -> str:
    return f"{day.day} {day:%B} {day.year}"


def _some_day(rng: random.Random) -> dt.date:
    return dt.date(1890, 1, 1) + dt.timedelta(days=rng.randrange(220 * 365))


def _shifted(rng: random.Random) -> tuple[str, str]:
    day, days = _some_day(rng), rng.randint(3, 60)
    after = rng.random() < 0.6
    target = day + dt.timedelta(days=days if after else -days)
    return f"Which date is {days} days {'after' if after else 'before'} {_spoken(day)}?", _spoken(target)


def _weekday(rng: random.Random) -> tuple[str, str]:
    day = _some_day(rng)
    return f"Which day of the week is {_spoken(day)}?", f"{day:%A}"


def _between(rng: random.Random) -> tuple[str, str]:
    day, days = _some_day(rng), rng.randint(5, 120)
    later = day + dt.timedelta(days=days)
    return f"How many days pass from {_spoken(day)} to {_spoken(later)}?", str(days)


def _converted(rng: random.Random) -> tuple[str, str]:
    big, small, factor = rng.choice(_UNITS)
    count = rng.randint(3, 40)
    return f"How many {small} are there in {count} {big}?", str(count * factor)


def calendar(rng: random.Random) -> tuple[str, str]:
    """Draw a question about time and its true answer.

    >>> calendar(random.Random(5))
    ('How many hours are there in 25 days?', '600')
    """
    return rng.choice((_shifted, _shifted, _weekday, _between, _converted))(rng)
