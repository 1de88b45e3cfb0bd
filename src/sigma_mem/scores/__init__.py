"""Scores that people already have, as feedback: which of them count is configured, never guessed."""

from sigma_mem.scores.record import Metric, Score, Taken, record

__all__ = ["Metric", "Score", "Taken", "record"]
