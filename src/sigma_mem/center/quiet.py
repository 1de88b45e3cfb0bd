"""Progress bars of transformers on a terminal, and none in a pipe."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr

__all__ = ["bars_on_terminals_only"]


@contextmanager
def bars_on_terminals_only() -> Iterator[None]:
    """Let transformers draw its bars only where a person looks at them.

    Some of its bars ask no switch (that of GGUF files), so in a pipe stderr is taken away as well while this
    lasts; what goes wrong is raised, not printed.
    """
    from transformers.utils import logging

    if sys.stderr.isatty() or not logging.is_progress_bar_enabled():
        yield
        return
    logging.disable_progress_bar()
    try:
        with redirect_stderr(io.StringIO()):
            yield
    finally:
        logging.enable_progress_bar()
