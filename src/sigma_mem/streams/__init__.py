"""Recorded streams: a file of JSON lines (:func:`load_stream`, :func:`save_stream`), and the :class:`Stream`.

`tables` reads a table with one's own columns as a stream, `pool` measures what the peers of one are worth.
"""

from sigma_mem.streams.jsonl import load_stream, save_stream
from sigma_mem.streams.stream import Stream

__all__ = ["Stream", "load_stream", "save_stream"]
