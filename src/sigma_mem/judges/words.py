"""What a judge is asked, and how its reply is read."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

INSTRUCTION = "Another model answered the question below. Decide whether its answer should be trusted."
REQUEST = "Should this answer be trusted, Yes or No?"
# Matched forms: a form of Yes counts only together with the same form of No, for an unmatched union would
# lean to one side (SmolLM2 writes NO in one token and YES in two).
PAIRS = (("Yes", "No"), (" Yes", " No"), ("yes", "no"), (" yes", " no"), ("YES", "NO"), (" YES", " NO"))
SURE = 3.0  # log-odds of a Yes that comes without probabilities
_LEAST = -20.0  # of a log-probability: endpoints write −9999 for none
_YES_OR_NO = re.compile(r"\W*(yes|no)\b", re.IGNORECASE)
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def record_in_words(prob: float, labels: float) -> str:
    """What a memory knows of the peer behind an answer, for a judge to read: the black-box form of steering.

    The number of tasks is rounded, so that one more label seldom makes a new prompt.

    >>> record_in_words(0.743, 117.2)
    'The model that answered was right in 74 % of about 120 similar tasks.'
    >>> record_in_words(0.5, 0.0)
    'Nothing is known of the model that answered.'
    """
    if labels < 1.0:
        return "Nothing is known of the model that answered."
    about = round(labels, 1 - math.floor(math.log10(labels))) if labels >= 10.0 else labels
    return f"The model that answered was right in {100 * prob:.0f} % of about {about:.0f} similar tasks."


def yes_minus_no(likely: Sequence[Mapping[str, Any]]) -> float | None:
    """log P(Yes) − log P(No) from a token's most likely alternatives; None if neither is among them.

    A form whose counterpart is not listed is compared with the least likely alternative that is: the
    counterpart is no likelier than that.

    >>> listed = [{"token": "Yes", "logprob": -0.1}, {"token": "No", "logprob": -2.4}]
    >>> round(yes_minus_no(listed), 2)
    2.3
    >>> yes_minus_no([{"token": "The", "logprob": -0.1}])
    """
    known: dict[str, float] = {}
    for one in likely:
        token, value = one.get("token"), one.get("logprob")
        if isinstance(token, str) and isinstance(value, int | float) and math.isfinite(value):
            known.setdefault(token.replace("▁", " ").replace("Ġ", " "), max(float(value), _LEAST))
    pairs = [pair for pair in PAIRS if pair[0] in known or pair[1] in known]
    if not pairs:
        return None
    floor = min(known.values())
    yes, no = (math.fsum(math.exp(known.get(pair[side], floor)) for pair in pairs) for side in (0, 1))
    return math.log(yes) - math.log(no)


def said_in(text: str, number: bool) -> float | None:
    """The score in a text: of Yes or No at its beginning, or its first number; None for anything else.

    What a model thinks aloud before it replies is left out.

    >>> said_in("Yes, it is right.", number=False), said_in("Score: 7/10", number=True)
    (3.0, 7.0)
    >>> said_in("<think>Yes? 17 * 23 is 391.</think> No.", number=False)
    -3.0
    >>> said_in("As a language model …", number=False)
    """
    text = text.rpartition("</think>")[2]
    if number:
        found = _NUMBER.search(text)
        return None if found is None else float(found[0])
    said = _YES_OR_NO.match(text)
    return None if said is None else SURE if said[1].lower() == "yes" else -SURE
