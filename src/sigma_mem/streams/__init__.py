"""Recorded streams: load and save them, attack them, and choose which labels are shown.

A stream is a file of JSON lines (:func:`load_stream`, :func:`save_stream`) or the
:class:`Stream` value it becomes. :func:`counterfactual` is the paper's swap attack, and the
classes of :mod:`~sigma_mem.streams.reveal` decide which labels a memory gets to see and when.
"""

from sigma_mem.streams.counterfactual import Attack, attack_plan, counterfactual
from sigma_mem.streams.joined import join_streams
from sigma_mem.streams.jsonl import load_stream, save_stream
from sigma_mem.streams.reveal import Bandit, Delayed, Dishonest, Everything, Noisy, Reveal, Revealed, Share
from sigma_mem.streams.stream import Stream
from sigma_mem.streams.topics import with_topics

__all__ = [
    "Attack",
    "Bandit",
    "Delayed",
    "Dishonest",
    "Everything",
    "Noisy",
    "Reveal",
    "Revealed",
    "Share",
    "Stream",
    "attack_plan",
    "counterfactual",
    "join_streams",
    "load_stream",
    "save_stream",
    "with_topics",
]
