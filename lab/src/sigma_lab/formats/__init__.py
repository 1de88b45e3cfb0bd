"""Recordings of other tools as streams: RouterBench and LLMRouterBench.

Each format has one file with two functions: whether a parsed file is of this format, and from parsed
files to `Row` values. The rows are gathered into events, and a `Report` lists what was kept, and what was
dropped and why.
"""

from sigma_lab.formats.imported import FORMATS, import_stream

__all__ = ["FORMATS", "import_stream"]
