"""Bad input is one InputError of this package, changes nothing, and concerns nobody else."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sigma_mem import SigmaMem
from sigma_mem.admin import refold
from sigma_mem.errors import InputError, SigmaMemError

PHI = np.array([1.0, 0.0])


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


CALLS: dict[str, Callable[[SigmaMem, str], object]] = {
    "a label of 400 digits": lambda m, d: m.feedback(d, {"a": 10**400}),
    "an id that is a number": lambda m, d: m.feedback(d, {"a": True}, id=5),  # type: ignore[arg-type]
    "an empty id": lambda m, d: m.feedback(d, {"a": True}, id=""),
    "an id with half a pair": lambda m, d: m.feedback(d, {"a": True}, id="\ud800"),
    "a decision with half a pair": lambda m, d: m.feedback("\ud800", {"a": True}),
    "a namespace with half a pair": lambda m, d: m.namespace("\ud800", ["a"], rank=2),
    "a source with half a pair": lambda m, d: m.feedback(d, {"a": False}, source="\ud800"),
    "revoking half a pair": lambda m, d: m.revoke("\ud800"),
    "φ as text": lambda m, d: m.route(phi="abc"),
    "φ of another shape": lambda m, d: m.route(phi=[[1.0], [1.0, 2.0]]),  # type: ignore[list-item]
    "φ of objects": lambda m, d: m.route(phi=[{}, 10**400]),  # type: ignore[list-item]
    "a question as bytes": lambda m, d: m.route(b"raw", phi=PHI),  # type: ignore[arg-type]
    "a deep question": lambda m, d: m.route(nested(5000), phi=PHI),
    "a question with half a pair": lambda m, d: m.route("hi \ud800", phi=PHI),
    "an answer with half a pair": lambda m, d: m.vote("q", {"a": "\ud800", "b": "4"}, phi=PHI),
    "a deep answer": lambda m, d: m.vote("q", {"a": nested(5000), "b": "4"}, phi=PHI),  # type: ignore[dict-item]
    "a peer with half a pair": lambda m, d: m.add_peer("\ud800"),
    "another durable": lambda m, d: m.namespace("n", ["a"], rank=2, durable="ALL"),  # type: ignore[arg-type]
    "peers as one text": lambda m, d: m.namespace("n", "abc", rank=2),
    "an empty source": lambda m, d: m.feedback(d, {"a": True}, source=""),
}


@pytest.mark.parametrize("kept", ["file", "process"])
def test_bad_input_is_one_error_and_changes_nothing(tmp_path: Path, kept: str) -> None:
    path = tmp_path / "m.db" if kept == "file" else None
    with SigmaMem(["a", "b"], path, rank=2) as mem:
        other = mem.namespace("other", ["a"], rank=2)
        d = mem.route(phi=PHI).id
        lines = len(list(mem.store.records("default")))
        for what, call in CALLS.items():
            with pytest.raises(InputError) as caught:
                print(what, call(mem, d))
            assert len(str(caught.value)) < 1000, what
            other.feedback(other.route(phi=PHI).id, {"a": True})
        assert len(list(mem.store.records("default"))) == lines
        assert other.events == len(CALLS)
        assert mem.store.epoch("default") == 0


@pytest.mark.parametrize("encoder", ["static", "hashed"])
def test_a_question_that_is_no_unicode_does_not_reach_an_encoder(encoder: str) -> None:
    with pytest.raises(InputError, match="not valid Unicode"):
        SigmaMem(["a"], encoder=encoder).route("hi \ud800")


def test_one_tenants_bad_input_costs_no_other_an_acknowledgement(tmp_path: Path) -> None:
    root = SigmaMem(["a"], tmp_path / "m.db", rank=2)
    bad, good = root.namespace("bad", ["a"], rank=2), root.namespace("good", ["a"], rank=2)
    stop = threading.Event()

    def sloppy() -> None:
        while not stop.is_set():
            for question in (b"raw bytes", nested(5000), "\ud800"):
                with pytest.raises(SigmaMemError):
                    bad.route(question, phi=PHI)  # type: ignore[arg-type]

    thread = threading.Thread(target=sloppy)
    thread.start()
    for _ in range(50):
        good.feedback(good.route(phi=PHI).id, {"a": True})
    stop.set()
    thread.join()
    assert good.events == 50
    root.close()


def test_a_mistyped_path_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no memory to open"):
        SigmaMem(path=tmp_path / "mistyped.db")
    with pytest.raises(InputError):
        SigmaMem("abc", tmp_path / "m.db", rank=2)
    with pytest.raises(InputError):
        SigmaMem(["a"], tmp_path / "m.db", rank=2, durable="ALL")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="snapshot_every is 0"):
        SigmaMem(["a"], tmp_path / "m.db", rank=2, snapshot_every=0)
    with pytest.raises(InputError, match="not valid Unicode"):
        SigmaMem(["a"], tmp_path / "\udcff.db", rank=2)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("no", [0, "no", np.False_])
def test_texts_are_kept_or_not_by_a_clear_word_only(tmp_path: Path, no: object) -> None:
    """Whatever was not False kept them."""
    with pytest.raises(InputError, match=r"keep_text is .*; expected True or False"):
        SigmaMem(["a"], tmp_path / "m.db", rank=2, keep_text=no)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []
    mem = SigmaMem(["a"], rank=2)
    with pytest.raises(InputError, match=r"keep_text is .*; expected True or False"):
        refold(mem, keep_text=no)  # type: ignore[arg-type]


def test_ids_that_the_memory_gives_itself_cannot_be_taken() -> None:
    mem = SigmaMem(["a"], rank=2)
    one, two = mem.route(phi=PHI), mem.route(phi=PHI)
    for id in (f"{two.id}/0", f"{two.id}/7", "00000000-99/0", "x~1", "~12"):
        with pytest.raises(InputError, match="may give to other feedback"):
            mem.feedback(one.id, {"a": True}, id=id)
    assert mem.feedback(two.id, {"a": True}).id == f"{two.id}/0"
    assert mem.feedback(two.id, {"a": True}, id=f"{two.id}/0").id == f"{two.id}/0"  # a retry of its own
    mem.feedback(one.id, {"a": True}, id="x", source="s")
    mem.feedback(one.id, {"a": False}, id="x", source="s", amend=True)
    mem.feedback(one.id, {"a": False}, id="x", source="s")  # as it stands
    for fine in ("trace/7", "a~b", "2024/01/05", "~"):
        mem.feedback(one.id, {"a": True}, id=fine, source=f"by {fine}")


def test_refused_feedback_moves_no_clock() -> None:
    from sigma_mem import Settings

    mem = SigmaMem(["a", "b"], rank=2, settings=Settings(gamma=0.5, decay="labelled"))
    one = mem.route(phi=PHI)
    mem.feedback(one.id, {"a": True}, id="x")
    before = mem.state.now
    two = mem.route(phi=PHI)
    for refused in ({"id": "x"}, {"source": "a"}, {"id": "y~1"}):
        with pytest.raises(InputError):
            mem.feedback(two.id, {"a": True}, **refused)  # type: ignore[arg-type]
    assert mem.state.now == before == mem.journal.replayed().state.now
