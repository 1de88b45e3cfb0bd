"""Move a memory: backup, export and restore, learn from streams and tables, refold, merge."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from learned import assert_alike
from sigma_mem import Settings, SigmaMem
from sigma_mem.admin import backup, export, merge, refold, restore
from sigma_mem.cli.app import run
from sigma_mem.errors import ConflictError, InputError, StreamError
from sigma_mem.streams.tables import Columns, load_table

PEERS = ("ann", "bob", "cat")


class Clock:
    def __init__(self, now: float = 1000.0, step: float = 1.0) -> None:
        self.now, self.step = now, step

    def __call__(self) -> float:
        self.now += self.step
        return self.now


def taught(path=None, events: int = 12, seed: int = 0, **options) -> SigmaMem:
    rng = np.random.default_rng(seed)
    mem = SigmaMem(PEERS, path, rank=4, clock=options.pop("clock", Clock()), **options)
    for i in range(events):
        phi = rng.normal(size=4)
        phi /= np.linalg.norm(phi)
        answers = {peer: str(rng.integers(3)) for peer in PEERS}
        d = mem.decide(f"task {seed} {i}", answers, phi=phi)
        mem.feedback(d.id, {peer: bool(rng.random() < 0.6) for peer in PEERS}, source=f"s{i % 2}")
    return mem


def assert_same(a, b, exact: bool = True) -> None:
    assert a.state.peers == b.state.peers
    if exact:
        assert_alike(a, b)


@pytest.mark.parametrize("where", ["process", "file"])
def test_a_backup_is_the_memory_with_all_its_namespaces(where: str, tmp_path: Path) -> None:
    mem = taught(tmp_path / "memory.db" if where == "file" else None)
    other = mem.namespace("tenant", ["x"], rank=2)
    other.route(phi=[1.0, 0.0])
    target = tmp_path / "backup.db"
    backup(mem, target)
    mem.route(phi=np.eye(4)[0])  # goes on
    with SigmaMem(path=target) as copy:
        assert copy.events == 12
        assert copy.namespace("tenant").events == 1
        assert_same(copy, copy.journal.replayed())
    with pytest.raises(InputError, match="which exists"):
        backup(mem, target)
    mem.close()


def test_a_backup_beside_a_running_writer(tmp_path: Path, capsys) -> None:
    path = tmp_path / "memory.db"
    with taught(path) as mem:
        assert run(["backup", "-m", str(path), str(tmp_path / "b.db")]) == 0
        with SigmaMem(path=tmp_path / "b.db", readonly=True) as copy:
            assert_same(copy, mem)


@pytest.mark.parametrize("name", ["memory.jsonl", "memory.jsonl.gz"])
def test_export_and_restore_lose_nothing(name: str, tmp_path: Path) -> None:
    mem = taught()
    mem.rename_peer("bob", keep=0.5)
    mem.revoke("s1")
    file = tmp_path / name
    lines = export(mem, file)
    again = restore(file, tmp_path / "new.db")
    assert lines == 1 + 12 * 2 + 2
    assert_same(again, mem)
    assert list(again.decisions()) == list(mem.decisions())
    second = tmp_path / f"again-{name}"
    export(again, second)
    assert second.read_bytes() == file.read_bytes()
    again.close()
    with pytest.raises(InputError, match="holds a memory already"):
        restore(file, tmp_path / "new.db")
    with restore(file, tmp_path / "new.db", namespace="second") as third:
        assert_same(third, mem)


def test_a_cut_or_changed_export_is_refused(tmp_path: Path) -> None:
    file, bad = tmp_path / "memory.jsonl", tmp_path / "bad.jsonl"
    export(taught(events=3), file)
    lines = file.read_bytes().splitlines(keepends=True)
    for broken in (
        lines[:-1],
        lines[:3] + lines[4:],
        [*lines[:2], lines[2].replace(b'"task 0 0"', b'"task 0 1"', 1), *lines[3:]],
        [*lines, lines[-1]],
        [b"{}\n", *lines[1:]],
        [lines[0][:-5]],
        [],
    ):
        bad.write_bytes(b"".join(broken))
        if bad.read_bytes() == file.read_bytes():
            continue
        with pytest.raises(InputError):
            restore(bad)
    cut = tmp_path / "cut.jsonl.gz"
    cut.write_bytes(gzip.compress(file.read_bytes())[:-20])
    with pytest.raises(InputError, match="cut"):
        restore(cut)
    with pytest.raises(InputError, match="there is no file"):
        restore(tmp_path / "none.jsonl")


# --- learn -------------------------------------------------------------------------------


def stream_file(folder: Path, events: int = 20) -> Path:
    file = folder / "stream.jsonl.gz"
    with gzip.open(file, "wt", encoding="utf-8") as out:
        for i in range(events):
            answers = {"ann": {"text": str(2 * i)}, "bob": {"text": str(2 * i + 1)}}
            correct = {"ann": True, "bob": False}
            line = {"id": f"e{i}", "question": f"What is {i} + {i}?", "answers": answers, "correct": correct}
            out.write(json.dumps(line) + "\n")
    return file


def test_learn_takes_a_stream_once(tmp_path: Path, capsys) -> None:
    file, memory = str(stream_file(tmp_path)), str(tmp_path / "memory.db")
    assert run(["learn", file, "-m", memory, "--encoder", "hashed", "--limit", "5"]) == 0
    assert "5 events, 10 labels" in capsys.readouterr().out
    assert run(["learn", file, "-m", memory, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "events": 15, "known": 5, "labels": 30, "added": [], "dropped": {},
    }  # fmt: skip
    with SigmaMem(path=memory) as mem:
        assert mem.events == 20
        assert mem.decision("stream:e3").labels == {"ann": 1.0, "bob": -1.0}
        trust = mem.trust("What is 3 + 4?")
        assert trust["ann"].prob > 0.8 > 0.2 > trust["bob"].prob


def table(folder: Path, name: str, rows: list[dict]) -> str:
    file = folder / name
    if name.endswith(".parquet"):
        import pyarrow
        import pyarrow.parquet

        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), file)
    else:
        with file.open("w", newline="", encoding="utf-8") as out:
            writer = csv.DictWriter(out, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    return str(file)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_learn_from_a_row_per_answer(ending: str, tmp_path: Path, capsys) -> None:
    rows = [
        {"prompt": f"{i} + {i}?", "model": model, "output": str(2 * i), "grade": grade}
        for i in range(6)
        for model, grade in (("ann", 1), ("bob", 0))
    ]
    file, memory = table(tmp_path, f"log.{ending}", rows), str(tmp_path / "memory.db")
    words = ["--question", "prompt", "--peer", "model", "--answer", "output", "--score", "grade"]
    assert run(["learn", file, "-m", memory, "--encoder", "hashed", *words]) == 0
    with SigmaMem(path=memory) as mem:
        assert (mem.events, mem.peers) == (6, ("ann", "bob"))
        assert mem.decision("log:3 + 3?").labels == {"ann": 1.0, "bob": -1.0}


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_learn_from_a_row_per_question(ending: str, tmp_path: Path) -> None:
    rows = [{"q": f"{i}?", "a": "1", "b": "2", "a_ok": True, "b_ok": None if i else False} for i in range(4)]
    file, memory = table(tmp_path, f"wide.{ending}", rows), str(tmp_path / "memory.db")
    words = ["--question", "q", "-a", "ann=a", "-a", "bob=b", "--label", "ann=a_ok", "--label", "bob=b_ok"]
    assert run(["learn", file, "-m", memory, "--encoder", "hashed", *words]) == 0
    with SigmaMem(path=memory) as mem:
        assert mem.decision("wide:0?").labels == {"ann": 1.0, "bob": -1.0}
        assert mem.decision("wide:1?").labels == {"ann": 1.0}


def test_tables_say_what_is_wrong_with_them(tmp_path: Path) -> None:
    file = table(tmp_path, "t.csv", [{"question": "1?", "model": "ann", "ok": "0"}])
    with pytest.raises(StreamError, match="has no column 'peer'"):
        load_table(file, Columns(peer="peer", label="ok"))
    with pytest.raises(StreamError, match="name the column as a score"):
        load_table(file, Columns(peer="model", label="ok"))
    with pytest.raises(StreamError, match="expected one of them"):
        load_table(file, Columns())
    assert load_table(file, Columns(peer="model", score="ok")).stream.events[0].correct == {"ann": -1.0}


def test_learn_says_which_rows_it_dropped(tmp_path: Path, capsys) -> None:
    rows = [{"question": "1?", "model": "ann", "ok": ok, "day": ok} for ok in (1, 0)]
    file, words = table(tmp_path, "log.csv", rows), ["--peer", "model", "--score", "ok"]
    assert run(["learn", file, "-m", str(tmp_path / "one.db"), *words]) == 0
    said = capsys.readouterr().out
    assert "dropped 1: a second answer of the same peer to the same event" in said
    assert "--event" in said
    assert run(["learn", file, "-m", str(tmp_path / "two.db"), *words, "--event", "day", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["events"], found["labels"], found["dropped"]) == (2, 2, {})


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_column_name_that_comes_twice_is_refused(ending: str, tmp_path: Path) -> None:
    file = tmp_path / f"log.{ending}"
    if ending == "csv":
        file.write_text("question,ok,ok\n1?,1,0\n")
    else:
        import pyarrow
        import pyarrow.parquet

        columns = [pyarrow.array(["1?"]), pyarrow.array([1]), pyarrow.array([0])]
        names = ["question", "ok", "ok"]
        pyarrow.parquet.write_table(pyarrow.Table.from_arrays(columns, names), file)
    with pytest.raises(StreamError, match="2 columns 'ok'"):
        load_table(file, Columns(scores={"ann": "ok"}))


def test_a_table_without_its_columns_names_the_options(tmp_path: Path, capsys) -> None:
    file = table(tmp_path, "log.csv", [{"question": "1?", "ok": 1}])
    assert run(["learn", file, "-m", str(tmp_path / "memory.db")]) == 2
    assert "--score" in capsys.readouterr().err
    assert not (tmp_path / "memory.db").exists()


# --- refold ------------------------------------------------------------------------------


def test_refold_without_change_is_the_same_memory() -> None:
    mem = taught(events=30)
    mem.add_peer("dan")
    mem.revoke("s1")
    mem.rename_peer("ann", keep=0.5)
    mem.rename_peer("bob", "rob")
    found = refold(mem)
    assert found.decisions == 30
    assert found.differences == ()
    assert found.right_before == found.right_after
    assert_same(found.memory, mem)
    assert [d.id for d in found.memory.decisions()] == [d.id for d in mem.decisions()]
    assert found.memory.decision(mem.decisions()[3].id).labels == mem.decision(mem.decisions()[3].id).labels


def test_refold_with_other_settings_says_how_decisions_differ(tmp_path: Path, capsys) -> None:
    path, target = tmp_path / "memory.db", tmp_path / "new.db"
    with taught(path, events=40) as mem:
        found = refold(mem, target, settings=Settings(gamma=0.5))
        assert found.memory.settings == Settings(gamma=0.5)
        assert found.memory.events == 40
        differ = [d for d in mem.decisions() if found.memory.decision(d.id).peer != d.peer]
        assert sorted(x.decision for x in found.differences) == sorted(d.id for d in differ)
        assert 0 < len(differ) < 40
        assert_same(found.memory, found.memory.journal.replayed())
        found.memory.close()
    assert run(["refold", "-m", str(path), "--gamma", "0.5", str(tmp_path / "third.db"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["differ"] == len(differ)


def test_the_command_changes_one_setting_and_keeps_the_others(tmp_path: Path, capsys) -> None:
    path, kept = tmp_path / "memory.db", {"trusted": ("judge",), "prior": 0.3}
    with SigmaMem(PEERS, path, rank=2, settings=Settings(**kept)) as mem:
        mem.route(phi=np.array([1.0, 0.0]))
    assert run(["refold", "-m", str(path), "--gamma", "0.9", str(tmp_path / "a.db")]) == 0
    with SigmaMem(path=tmp_path / "a.db") as mem:
        assert mem.settings == Settings(gamma=0.9, **kept)
    assert run(["refold", "-m", str(path), "--half-life", "60", str(tmp_path / "b.db")]) == 0
    assert run(["refold", "-m", str(tmp_path / "b.db"), "--gamma", "0.9", str(tmp_path / "c.db")]) == 0
    with SigmaMem(path=tmp_path / "b.db") as timed, SigmaMem(path=tmp_path / "c.db") as mem:
        assert (timed.settings.half_life, timed.settings.trusted) == (60.0, ("judge",))
        assert mem.settings == Settings(gamma=0.9, **kept)


def test_refold_with_another_encoder_needs_the_texts() -> None:
    mem = taught(events=5)
    found = refold(mem, encoder="hashed")
    assert found.memory.encoder["name"] == "hashed"
    assert found.memory.decisions()[0].phi.shape != (4,)
    with pytest.raises(InputError, match="no text"):
        refold(_without_text(), encoder="hashed")


def _without_text() -> SigmaMem:
    mem = SigmaMem(PEERS, rank=4, keep_text=False)
    mem.route("secret", phi=np.eye(4)[0])
    return mem


# --- merge -------------------------------------------------------------------------------


def test_merged_memories_are_as_one_that_saw_the_events_in_time(tmp_path: Path, capsys) -> None:
    clock = Clock()
    one, two, both = (SigmaMem(PEERS, rank=2, clock=clock) for _ in range(3))
    rng = np.random.default_rng(3)
    for _ in range(30):
        mem = one if rng.random() < 0.5 else two
        phi = rng.normal(size=2)
        phi /= np.linalg.norm(phi)
        answers = {peer: str(rng.integers(3)) for peer in PEERS}
        said = {peer: bool(rng.random() < 0.5) for peer in PEERS}
        for into in (mem, both):
            into.feedback(into.vote(None, answers, phi=phi).id, said)
    merged = merge(one, two)
    assert merged.events == both.events == 30
    for name in ("M", "N", "G"):
        np.testing.assert_allclose(getattr(merged.state, name), getattr(both.state, name), atol=1e-12)
    assert merged.state.alternatives(np.eye(2)[0]) == pytest.approx(both.state.alternatives(np.eye(2)[0]))
    assert_same(merged, merged.journal.replayed())
    assert merged.decision(one.decisions()[0].id).probs == one.decisions()[0].probs  # as it claimed then


def test_copies_of_one_memory_merge_without_counting_twice(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    with taught(path, events=10) as mem:
        backup(mem, tmp_path / "copy.db")
        first = mem.decisions()[5]
        with SigmaMem(path=tmp_path / "copy.db", clock=Clock(5000.0)) as copy:
            copy.feedback(first.id, {"ann": 0.25}, source="new")
            copy.add_peer("dan")
            copy.route(phi=np.eye(4)[0])
            merged = merge(mem, copy, tmp_path / "both.db")
        assert merged.events == 11
        assert merged.peers == (*PEERS, "dan")
        assert merged.decision(first.id).labels.keys() == {"ann", "bob", "cat"}
        assert_same(merged, merged.journal.replayed())
        merged.close()
        with pytest.raises(InputError, match="which exists"):
            merge(mem, mem, tmp_path / "both.db")


def test_merge_refuses_memories_that_do_not_fit() -> None:
    with pytest.raises(InputError, match="differ in rank"):
        merge(SigmaMem(PEERS, rank=2), SigmaMem(PEERS, rank=3))
    one, two = SigmaMem(PEERS, rank=2), SigmaMem(PEERS, rank=2)
    one.decider.next_id = two.decider.next_id = "e"
    one.route(phi=[1.0, 0.0])
    two.route(phi=[0.0, 1.0])
    with pytest.raises(ConflictError, match="both memories have a decision"):
        merge(one, two)


@pytest.mark.parametrize(("one", "two"), [(True, False), (False, True), (False, False)])
def test_a_merged_memory_says_whether_it_has_texts(one: bool, two: bool) -> None:
    parts = [SigmaMem(PEERS, rank=2, keep_text=keep) for keep in (one, two)]
    for part in parts:
        part.route("a text", phi=[1.0, 0.0])
    merged = merge(parts[0], parts[1])
    assert merged.keep_text is any(d.question for d in merged.decisions())


def test_the_merge_command(tmp_path: Path, capsys) -> None:
    for i in (0, 1):
        taught(tmp_path / f"{i}.db", events=4, seed=i, clock=Clock(1000.0 * i)).close()
    words = [str(tmp_path / "0.db"), str(tmp_path / "1.db"), "-o", str(tmp_path / "both.db")]
    assert run(["merge", *words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["events"] == 8
