"""The reference on which the default encoder is fitted: our own prompts, labelled by subject.

Sixty subjects, each a list of phrases in ``subjects.txt``, are put into the forms in which questions come
(multiple choice, open, numeric, a passage, a case, a chat request); three kinds of generated tasks stand
beside them (word problems, competition mathematics, code). No benchmark's questions are among them.
"""

from sigma_mem.encode.reference.prompts import prompts, subjects

__all__ = ["prompts", "subjects"]
