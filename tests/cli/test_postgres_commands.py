"""Every command that takes a memory takes the address of a database, and prints no credentials."""

from cli.conftest import SECRET
from sigma_mem import SigmaMem


def test_a_memory_by_its_address(postgres, tmp_path, call, values):
    memory = ("--memory", postgres)
    id = values("route", *memory, "--peers", "ann,bob", "--encoder", "hashed", "What is 17 * 23?")["id"]
    assert "ann" in call("route", *memory, "What is 17 * 24?")
    call("vote", *memory, "--after", id, "What is 17 * 23?", "-a", "ann=391", "-a", "bob=381")
    call("feedback", *memory, id, "ann=true", "bob=false", "--source", "tests")
    for command in ("inspect", "decisions", "sources", "check"):
        call(command, *memory)
    call("trust", *memory, "What is 17 * 25?")
    call("inspect", *memory, "--peer", "ann")
    call("peers", "add", "cyd", *memory)
    call("peers", "rename", "cyd", "dan", *memory)
    call("prices", *memory, "ann", "--per-call", "0.1")
    call("sources", *memory, "--revoke", "tests")
    call("export", *memory, tmp_path / "memory.jsonl")
    call("backup", *memory, tmp_path / "backup.db")
    call("restore", tmp_path / "memory.jsonl", *memory, "--namespace", "copy")
    call("refold", *memory, "--gamma", "0.9", tmp_path / "refolded.db")
    call("merge", postgres, tmp_path / "refolded.db", "--output", tmp_path / "both.db", code=2)
    call("forget", *memory, id)
    assert "in 2 namespaces" in call("check", *memory)
    with SigmaMem(path=tmp_path / "backup.db") as copy:
        assert copy.peers == ("ann", "bob", "dan")


def test_db_upgrade(postgres, tmp_path, call, values):
    assert values("db", "upgrade", postgres) == {"before": 0, "after": 1}
    assert "has version 1 already" in call("db", "upgrade", postgres)
    with SigmaMem(["ann", "bob"], tmp_path / "memory.db", rank=4):
        pass
    assert "already" in call("db", "upgrade", tmp_path / "memory.db")
    assert "no such file" in call("db", "upgrade", tmp_path / "none.db", code=2)


def test_a_server_that_is_not_there_is_one_line(call):
    assert "cannot be reached" in call("check", "-m", f"postgresql://ann:{SECRET}@127.0.0.1:1/db", code=1)


def test_the_configuration_is_printed_without_credentials(postgres, call):
    assert "postgresql://" in call("config", "--path", postgres, "--json")
