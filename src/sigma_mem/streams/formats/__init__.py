"""Recordings of other tools as streams: RouterBench, LLMRouterBench, inspect_ai and Langfuse.

Each format has one file with one function from parsed files to :class:`Row` values; the rows
of all files are gathered into events, and a :class:`Report` says what was kept, and what was
dropped and why.
"""

from sigma_mem.streams.formats.gather import Report, Row
from sigma_mem.streams.formats.importing import FORMATS, Imported, import_stream

__all__ = ["FORMATS", "Imported", "Report", "Row", "import_stream"]
