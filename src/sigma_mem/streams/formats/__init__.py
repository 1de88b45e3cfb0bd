"""Recordings of other tools as streams: RouterBench, LLMRouterBench, inspect_ai and Langfuse.

Each format has one file with two functions: whether a parsed file is of this format, and from parsed
files to :class:`Row` values. The rows are gathered into events, and a :class:`Report` says what was kept,
and what was dropped and why.
"""

from sigma_mem.streams.formats.importing import FORMATS, Imported, Report, import_stream
from sigma_mem.streams.formats.rows import Row

__all__ = ["FORMATS", "Imported", "Report", "Row", "import_stream"]
