"""What is forgotten leaves no byte behind, whatever the caller called it."""

import gzip
import os
import unicodedata
from contextlib import closing

import pytest

from sigma_mem import SigmaMem
from sigma_mem.admin import export, restore
from sigma_mem.errors import InputError, UnknownDecisionError
from sigma_mem.store.postgres.tables import PostgresAddress

SAID = ("QUESTIONTEXT", "ANSWERTEXT", "TOPICNAME", "REFNAME", "FEEDBACKID", "SOURCENAME")


def remember(mem):
    """An event with everything that a caller can say of it."""
    given = {"ref": "jane.doe@example.org-REFNAME", "topic": "TOPICNAME"}
    d = mem.vote("QUESTIONTEXT of Jane", {"a": "ANSWERTEXT", "b": "2"}, **given)
    mem.feedback(d, {"a": True}, id="FEEDBACKID-jane.doe", source="SOURCENAME")
    mem.served(d, "b", cost=1.0)
    return d


@pytest.mark.parametrize("kept", ["file", "process"])
def test_refs_ids_and_sources_leave_with_their_event(tmp_path, kept):
    """forget_leaves_ref_and_ids"""
    path = tmp_path / "m.db" if kept == "file" else None
    with SigmaMem(["a", "b"], path, encoder="hashed") as mem:
        d = remember(mem)
        other = mem.route("another one", ref="stays")
        mem.feedback(other, {"b": True}, id="stays")
        assert mem.forget(d) == 1
        assert mem.forget(d) == 0
        lines = export(mem, tmp_path / "e.jsonl.gz")
        for name in ("jane.doe@example.org-REFNAME", "FEEDBACKID-jane.doe"):
            with pytest.raises(UnknownDecisionError):
                mem.explain(name)
        assert mem.decision("stays").id == other.id
        assert [s.name for s in mem.sources()] == ["default"]
        assert mem.store.verify() == lines
        again = mem.route("a new event", ref="jane.doe@example.org-REFNAME")  # the name is free again
        assert mem.decision("jane.doe@example.org-REFNAME").id == again.id
        mem.forget(again)
    exported = gzip.decompress((tmp_path / "e.jsonl.gz").read_bytes())
    raw = b"".join(file.read_bytes() for file in tmp_path.glob("m.db*"))
    assert [word for word in SAID if word.encode() in exported + raw] == []
    with restore(tmp_path / "e.jsonl.gz") as copy:
        assert copy.events == 2


@pytest.mark.parametrize("written", ["NFC", "NFD"])
def test_a_text_is_found_in_either_of_its_unicode_forms(written):
    mem = SigmaMem(["a"], encoder="hashed")
    mem.route(unicodedata.normalize(written, "Ask JOSÉ about the ﬁle"))
    assert mem.forget(text=unicodedata.normalize("NFC", "José about the file")) == 1
    assert mem.forget(text="José") == 0


def test_the_names_of_what_is_left_cannot_be_taken():
    mem = SigmaMem(["a"], encoder="hashed")
    d = mem.route("which?")
    with pytest.raises(InputError, match="NUL"):
        mem.feedback(d, {"a": True}, id=f"\0{d.id}/2")
    with pytest.raises(InputError, match="NUL"):
        mem.route("which?", ref=f"\0{d.id}/2")


def test_an_open_transaction_of_anybody_keeps_no_forgotten_byte(postgres_server, postgres):
    """postgres_forget_leaves_bytes: VACUUM keeps what an older transaction may still see."""
    schema = PostgresAddress.parse(postgres).schema
    with SigmaMem(["x", "y"], postgres, rank=2) as mem, closing(postgres_server.connect()) as admin:
        ids = [mem.route(f"FORGET ME PLEASE {os.urandom(200).hex()}", phi=[1.0, 0.0]).id for _ in range(3)]
        mem.store.flush()
        rows = admin.execute(f"SELECT body FROM {schema}.record WHERE kind = 'd'").fetchall()
        file = "SELECT pg_relation_filepath(%s)"

        def left():
            admin.execute("CHECKPOINT")
            at = postgres_server.data / admin.execute(file, [f"{schema}.record"]).fetchone()[0]
            return [body for (body,) in rows if bytes(body)[9:200] in at.read_bytes()]

        assert len(left()) == 3
        with closing(postgres_server.connect()) as other:
            other.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
            other.execute("SELECT 1")
            assert mem.forget(ids) == 3
            assert left() == []
        assert admin.execute(f"SELECT count(*) FROM {schema}.erasure").fetchone() == (0,)
        assert mem.store.verify() == 5
