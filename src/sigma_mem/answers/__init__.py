"""Answers as the memory sees them: a canonical form to vote with, and features of the text.

`canon` reads the final answer out of a response; equal canons vote together. `stated` finds the answer in a
response; `forms` reads the forms that need more than a line.
`features` turns the text of an answer into numbers, from which the memory learns what kind of text tends to
be right. `chat` turns messages into the text of a question.
"""

from sigma_mem.answers.canon import Canon, Kind, canon
from sigma_mem.answers.features import FEATURES, FEATURES_VERSION, text_features

__all__ = ["FEATURES", "FEATURES_VERSION", "Canon", "Kind", "canon", "text_features"]
