"""Odd arguments of methods that look: each is refused in one line, or means what it says."""

from __future__ import annotations

import re

import numpy as np
import pytest

from sigma_mem import SigmaMem
from sigma_mem.admin import backup, export, refold
from sigma_mem.errors import InputError, StoreError

PHI = np.array([1.0, 0.0])


@pytest.fixture(params=["process", "file"])
def mem(request, tmp_path):
    path = None if request.param == "process" else tmp_path / "memory.db"
    with SigmaMem(["ann", "bob"], path, rank=2) as made:
        d = made.vote("q", {"ann": "1", "bob": "2"}, phi=PHI, topic="law", ref="t")
        made.feedback(d, {"ann": True})
        yield made


def test_one_topic_needs_no_list(mem) -> None:
    assert mem.trust(topic="law") == mem.trust(topic=["law"]) == mem.trust().topics["law"]


@pytest.mark.parametrize(
    ("method", "argument", "value"),
    [
        ("decisions", "last", -1),
        ("decisions", "last", 2.0),
        ("decisions", "last", 10**400),
        ("decisions", "text", 5),
        ("decisions", "peer", np.array([1.0, 2.0])),
        ("decisions", "read", ["majority"]),
        ("history", "lines", -3),
        ("history", "lines", -(10**30)),
        ("history", "peer", ["zoe"]),
        ("history", "peer", np.array("ann")),
        ("trust", "topic", np.array("law")),
        ("explain", "top", -1),
        ("forget", "decision", np.array("t")),
        ("namespace", "encoder", np.array([1.0, 2.0])),
    ],
)
def test_it_is_refused_at_once_and_by_name(mem, method: str, argument: str, value: object) -> None:
    needed = {"explain": {"decision": "t"}, "namespace": {"name": "other", "peers": ["ann"]}}.get(method, {})
    with pytest.raises(InputError, match=re.escape(argument.removesuffix("s"))):
        getattr(mem, method)(**needed, **{argument: value})


@pytest.mark.parametrize("function", [export, backup, refold])
def test_a_path_that_cannot_be_written_is_one_line(mem, tmp_path, function) -> None:
    for path in (tmp_path / ("x" * 400), tmp_path, ""):
        with pytest.raises((StoreError, InputError)) as caught:
            function(mem, path)
        assert "\n" not in str(caught.value)
