"""Judges: models behind an endpoint that score other models' answers.

`EndpointJudge` asks any OpenAI-compatible server whether an answer should be trusted. Its score is
evidence that a memory learns to weigh (`sigma_mem.memory.verdicts`), never a label. `endpoint` sends the
requests; `words` has what the paper's judge is asked, and how Yes and No are read.
"""

from sigma_mem.judges.endpoint_judge import EndpointJudge

__all__ = ["EndpointJudge"]
