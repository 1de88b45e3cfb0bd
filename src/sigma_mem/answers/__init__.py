"""Answers as the memory sees them: a canonical form to vote with, and features of the text.

`canon` reads the final answer out of a response; equal canons vote together. `latex` and `literal` read
the forms that need a parser. `features` turns the text of an answer into numbers, from which the memory
learns what kind of text tends to be right.
"""

from sigma_mem.answers.canon import Kind, canon
from sigma_mem.answers.features import FEATURES, FEATURES_VERSION, text_features

__all__ = ["FEATURES", "FEATURES_VERSION", "Kind", "canon", "text_features"]
