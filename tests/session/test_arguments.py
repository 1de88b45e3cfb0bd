"""Whatever is handed to a public method, what comes back is a result or one clear error."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sigma_mem import SigmaMem
from sigma_mem.errors import InputError, SigmaMemError

WRONG = [
    None, 0, -1, 2.5, float("nan"), 10**400, "", "\ud800", "\0", b"raw", [None], {1: 2}, {"a": b"x"},
    np.array([1.0, 0.0]), np.array(["a"]), object(), {"x"}, 2**63, "9999999-99",
]  # fmt: skip
GOOD: dict[str, Any] = {"question": "q", "answers": {"a": "1", "b": "2"}, "labels": {"a": True}}
# They make files or whole memories; what they take is tested on its own.
LEFT_OUT = {"close", "namespace", "restore", "export", "backup", "snapshot", "refold", "merge", "learn"}
METHODS = [
    name
    for name, _ in inspect.getmembers(SigmaMem, inspect.isfunction)
    if not name.startswith("_") and name not in LEFT_OUT
]


def made(path: Path | None) -> tuple[SigmaMem, str]:
    mem = SigmaMem(["a", "b"], path, rank=2)
    d = mem.vote("q", {"a": "1", "b": "2"}, phi=[1.0, 0.0], ref="r")
    mem.feedback(d.id, {"a": True})
    return mem, d.id


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", METHODS)
def test_an_argument_of_any_kind_is_taken_or_refused(name: str) -> None:
    mem, decision = made(None)
    parameters = list(inspect.signature(getattr(mem, name)).parameters.values())
    needed = [p.name for p in parameters if p.default is p.empty]
    for parameter in parameters:
        for wrong in WRONG:
            known = {**GOOD, "decision": decision, "id": decision}
            given = {each: known.get(each, "a") for each in needed}
            if any(p.name == "phi" for p in parameters):
                given["phi"] = [1.0, 0.0]
            assert "\n" not in said(partial(getattr(mem, name), **{**given, parameter.name: wrong}))
            if set(mem.peers) != {"a", "b"}:
                mem, decision = made(None)
    assert mem.journal.replayed().state.M.tobytes() == mem.state.M.tobytes()


def said(call: Callable[[], Any]) -> str:
    """The error's message; "" where there is none."""
    try:
        call()
    except SigmaMemError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    "name",
    ["peers", "path", "rank", "settings", "namespace", "store", "durable", "snapshot_every", "seed", "clock"],
)
def test_a_memory_is_made_or_refused(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for wrong in WRONG:
        assert "\n" not in said(partial(make_and_close, **{"peers": ["a", "b"], "rank": 2, name: wrong}))


def make_and_close(**options: Any) -> None:
    SigmaMem(**options).close()


@pytest.mark.parametrize("kept", ["process", "file"])
def test_an_array_of_one_name_is_no_name_and_spoils_nothing(kept: str, tmp_path: Path) -> None:
    """It is equal to the name, so it passed for one, and the ledger could not be read again."""
    mem, decision = made(tmp_path / "m.db" if kept == "file" else None)
    name = np.array(["a"])
    calls: list[Callable[[], object]] = [
        lambda: mem.remove_peer(name),
        lambda: mem.rename_peer(name, keep=0.2),
        lambda: mem.rename_peer(name, "c"),
        lambda: mem.rename_peer("a", name, keep=0.2),
        lambda: mem.set_price(name, per_call=1.0),
        lambda: mem.served(decision, name),
        lambda: mem.revoke(name),
    ]
    for call in calls:
        with pytest.raises(InputError):
            call()
    with pytest.raises(InputError, match="cost is"):
        mem.served(decision, "a", cost=10**400)
    assert mem.peers == ("a", "b")
    assert mem.journal.replayed().state.M.tobytes() == mem.state.M.tobytes()
    mem.close()


def test_a_failure_that_no_argument_explains_is_not_renamed() -> None:
    mem, _ = made(None)
    with pytest.raises(TypeError, match="unexpected keyword"):
        mem.route("q", colour="red")  # type: ignore[call-arg]
