"""Recorded streams: a file of JSON lines (:func:`load_stream`, :func:`save_stream`), and the :class:`Stream`.

`columns` reads a table with one's own columns as a stream; `rows` and `gathered` do its work.
"""

from sigma_mem.streams.jsonl import load_stream, save_stream
from sigma_mem.streams.stream import Stream

__all__ = ["Stream", "load_stream", "save_stream"]
