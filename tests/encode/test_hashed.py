from __future__ import annotations

import os
import subprocess
import sys

from sigma_mem.encode.base import HashedEncoder


def test_the_same_in_another_process_whatever_the_hash_seed() -> None:
    code = (
        "from sigma_mem.encode.base import HashedEncoder\n"
        "print(HashedEncoder().encode(['What is 2 + 2?']).tolist())"
    )
    outs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert outs == {f"{HashedEncoder().encode(['What is 2 + 2?']).tolist()}\n"}


def test_texts_that_share_words_are_nearer() -> None:
    a, b, c = HashedEncoder().encode(
        ["the court heard the appeal", "the court refused the appeal", "def f(x): pass"]
    )
    assert a @ b > a @ c
