"""A memory says what happens: standard logging, quiet by default, warnings that name the remedy."""

from __future__ import annotations

import logging
import subprocess
import sys

import numpy as np
import pytest

from sigma_mem import SigmaMem
from sigma_mem.admin.check import advice
from sigma_mem.encode.glossary import reads_language

PHI = np.array([1.0, 0.0])


def warnings_of(caplog) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def test_few_labels_a_single_source_and_a_peer_never_chosen(caplog) -> None:
    mem = SigmaMem(["ann", "bob"], rank=2)
    for i in range(255):
        d = mem.vote(None, {"ann": "1", "bob": "2"}, phi=PHI)
        if i < 40:
            mem.feedback(d.id, {"ann": True, "bob": False})
    assert warnings_of(caplog) == []
    mem.route(phi=PHI)
    (one, never) = warnings_of(caplog)
    assert "one source, 'default'" in one
    assert "Settings(trusted=" in one
    assert "peer 'bob' was chosen in none" in never
    assert "remove_peer('bob')" in never
    for _ in range(800):
        mem.route(phi=PHI)
    assert len(warnings_of(caplog)) == 3  # each once
    assert "0 of the last 512 events have a label" in warnings_of(caplog)[2]
    assert [advice.about for advice in advice(mem)] == ["one source", "few labels", "never chosen: bob"]


def test_a_memory_in_good_use_says_nothing(caplog) -> None:
    mem = SigmaMem(["ann", "bob"], rank=2)
    for i in range(300):
        best = ("ann", "bob")[i % 2]
        d = mem.vote(None, {"ann": "1", "bob": "2"}, phi=np.eye(2)[i % 2])
        mem.feedback(d.id, {"ann": best == "ann", "bob": best == "bob"}, source=f"grader-{i % 3}")
    assert warnings_of(caplog) == []
    assert advice(mem) == []


def test_a_large_rank(caplog) -> None:
    SigmaMem(["ann"], rank=256)
    assert warnings_of(caplog) == []
    SigmaMem(["ann"], rank=257)
    assert "project embeddings to 64" in warnings_of(caplog)[0]


def test_a_language_that_the_encoder_does_not_know(caplog) -> None:
    mem = SigmaMem(["ann"])
    for i in range(32):
        mem.route(f"Πόσο κάνει {i} συν {i} και γιατί είναι έτσι;")
    assert "encoder='sentence'" in str(advice(mem)[-1])


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("What is the capital of France, and why?", True),
        ("Wie heißt die Hauptstadt von Frankreich, und warum?", True),
        ("法国的首都是哪里,为什么会这样呢?", True),
        ("17 * 23", True),
        ("def f(x): return x", True),
        ("ประเทศฝรั่งเศสมีเมืองหลวงชื่ออะไร", False),
        ("רושלים היא עיר הבירה של איזו מדינה", False),
    ],
)
def test_languages(text: str, known: bool) -> None:
    assert reads_language(text) is known


def test_changes_are_logged_as_info(caplog) -> None:
    caplog.set_level(logging.INFO, logger="sigma_mem")
    mem = SigmaMem(["ann", "bob"], rank=2)
    d = mem.route(phi=PHI)
    mem.feedback(d.id, {"ann": True}, source="x")
    mem.revoke("x")
    mem.rename_peer("ann", keep=0.2)
    mem.rename_peer("bob", "rob", keep=0.2)
    mem.forget(d)
    said = " | ".join(record.getMessage() for record in caplog.records)
    for words in (
        "source 'x' revoked, 1 lines",
        "'ann', now 'ann', keeps 0.2 of its record",
        "'bob', now 'rob'",
        "1 events forgotten",
    ):
        assert words in said


def test_quiet_by_default() -> None:
    script = "from sigma_mem import SigmaMem; SigmaMem(['a'], rank=300).route(phi=[1.0] + 299 * [0.0])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")
