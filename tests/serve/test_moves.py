"""Memories that come and leave over HTTP: what is refused is not kept, and what was sent does not stay."""

import hashlib
import json
import tempfile
from pathlib import Path

import pytest

from serve.conftest import served
from sigma_mem import SigmaMem
from sigma_mem.admin import export
from sigma_mem.serve.config import RequestLimits


@pytest.fixture
def exported(tmp_path):
    mem = SigmaMem(["a", "b"], encoder="hashed")
    mem.feedback(mem.vote("PRIVATE WORDS", {"a": "1", "b": "2"}), {"a": True})
    export(mem, tmp_path / "e.jsonl")
    return (tmp_path / "e.jsonl").read_bytes()


def test_a_restore_that_is_refused_writes_nothing(exported, tmp_path):
    """restore_refused_but_written: texts never reach a service that keeps none, and the name stays free."""
    path = tmp_path / "memory.db"
    with served(path=str(path)) as http:
        for _ in range(2):
            sent = http.post("/v1/memory/T/restore", content=exported)
            assert (sent.status_code, sent.json()["error"]["code"]) == (409, "conflict")
        assert http.get("/v1/memory/T").status_code == 404
        assert http.put("/v1/memory/T", json={"peers": ["a", "b"], "encoder": "hashed"}).is_success
        http.context.memories.store.flush()
        assert b"PRIVATE WORDS" not in b"".join(file.read_bytes() for file in tmp_path.glob("memory.db*"))


def test_a_restore_makes_no_more_namespaces_than_the_service_allows(exported):
    with served(keep_text=True, limits=RequestLimits(namespaces=1)) as http:
        assert http.post("/v1/memory/one/restore", content=exported).is_success
        sent = http.post("/v1/memory/two/restore", content=exported)
        assert (sent.status_code, sent.json()["error"]["code"]) == (409, "too_many_namespaces")
        assert http.get("/v1/memory").json()["namespaces"] == ["one"]


@pytest.mark.parametrize(("rank", "status"), [(16, 200), (1 << 14, 400)])
def test_a_small_file_cannot_make_a_large_memory(tmp_path, rank, status):
    """restore_small_file_large_memory: rank and peers are bounded before any matrix is made."""
    export(SigmaMem([f"p{n}" for n in range(8)], rank=8, keep_text=False), tmp_path / "e.jsonl")
    head, line, _ = (tmp_path / "e.jsonl").read_text().splitlines()
    opening = json.loads(line)
    opening["body"]["rank"] = rank
    body = f"{head}\n{json.dumps(opening, separators=(',', ':'))}\n".encode()
    end = {"lines": 1, "sha256": hashlib.sha256(body).hexdigest()}
    with served() as http:
        sent = http.post("/v1/memory/T/restore", content=body + json.dumps(end).encode() + b"\n")
        assert sent.status_code == status, sent.text
        if status == 400:
            assert sent.json()["error"]["code"] == "memory_too_large"


@pytest.mark.parametrize("what", ["export", "backup"])
def test_what_is_sent_has_no_name_that_could_outlive_it(exported, tmp_path, monkeypatch, what):
    """exports_left_behind: the file is gone from its folder before the first byte is sent."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    seen = []
    with served(keep_text=True, path=str(tmp_path / "memory.db")) as http:
        assert http.post("/v1/memory/T/restore", content=exported).is_success
        with http.stream("GET", f"/v1/memory/T/{what}") as sent:
            seen = [str(file) for file in Path(tmp_path).rglob("sigma-mem-*")]
            content = sent.read()
        assert sent.headers["content-length"] == str(len(content))
    assert seen == []
    assert content[:2] == (b"\x1f\x8b" if what == "export" else b"SQ")
