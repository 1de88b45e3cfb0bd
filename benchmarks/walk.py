"""How far one call goes: our own frames, files and changes of file, by ``sys.setprofile``.

``python benchmarks/walk.py``: three peers, 300 earlier events, the default encoder, in memory and on SQLite.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import FrameType

import sigma_mem
from sigma_mem import SigmaMem

OURS = str(Path(sigma_mem.__file__).parent)
PEERS = ["ann", "bob", "cat"]
ANSWERS = {"ann": "17 * 23 = 391", "bob": "391", "cat": "I think it is 381"}
LABELS = {"ann": True, "bob": True, "cat": False}


def walk(call: Callable[[], object]) -> tuple[int, int, int]:
    """Calls of our own functions, files they are in, and changes from one file to another."""
    files: list[str] = []

    def profile(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(OURS):
            files.append(frame.f_code.co_filename)

    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
    return len(files), len(set(files)), sum(a != b for a, b in pairwise(files))


def walks(path: str | None) -> dict[str, tuple[int, int, int]]:
    """Of every verb, after 300 events."""
    with SigmaMem(PEERS, path) as mem:
        for i in range(300):
            mem.feedback(mem.decide(f"What is 17 * {i}?", ANSWERS).id, LABELS)
        question, made = "What is 17 * 23?", mem.decide("What is 17 * 24?", ANSWERS)
        return {
            "route": walk(lambda: mem.route(question)),
            "vote": walk(lambda: mem.vote(question, ANSWERS)),
            "decide": walk(lambda: mem.decide(question, ANSWERS)),
            "feedback": walk(lambda: mem.feedback(made.id, LABELS)),
        }


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        for where, found in (("in memory", walks(None)), ("SQLite", walks(f"{folder}/memory.db"))):
            for verb, (calls, files, changes) in found.items():
                print(f"{verb:10} {where:10} {calls:4} calls {files:3} files {changes:4} changes of file")
