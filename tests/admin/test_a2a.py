"""Trust for agent cards: as the schema says, and as the memory knows it."""

import json
from datetime import datetime

import pytest

from sigma_mem import SigmaMem
from sigma_mem.admin import trust_extension, trust_schema
from sigma_mem.cli.app import run
from sigma_mem.errors import InputError

jsonschema = pytest.importorskip("jsonschema")


@pytest.fixture
def memory(tmp_path):
    with SigmaMem(["ann", "bob"], path=tmp_path / "memory.db", encoder="hashed") as mem:
        for number in range(20):
            d = mem.route(f"What is {number} + 1?", topic="sums" if number % 2 else "law")
            mem.feedback(d.id, {"ann": number % 2 == 1, "bob": False})
        yield mem


def test_an_extension_follows_its_schema_and_says_what_the_memory_knows(memory):
    jsonschema.Draft202012Validator.check_schema(trust_schema())
    for peer in memory.peers:
        extension = trust_extension(memory, peer)
        assert set(extension) == {"uri", "description", "required", "params"}  # of A2A's AgentExtension
        assert extension["uri"] == trust_schema()["$id"]
        jsonschema.validate(extension["params"], trust_schema(), jsonschema.Draft202012Validator)
    params = trust_extension(memory, "ann")["params"]
    trust = memory.trust()
    assert params["overall"]["probability"] == pytest.approx(trust["ann"].prob, abs=1e-4)
    assert params["overall"]["interval"] == pytest.approx(trust["ann"].interval, abs=1e-4)
    assert params["overall"]["labels"] == 20
    assert set(params["topics"]["law"]) == {"probability", "interval", "evidence"}  # counts are the agent's
    assert params["topics"]["sums"]["probability"] > params["topics"]["law"]["probability"]
    assert datetime.fromisoformat(params["asOf"]) >= datetime.fromisoformat(params["overall"]["lastLabel"])


def test_the_command_writes_a_file_or_standard_output(memory, tmp_path, capsys):
    file, options = tmp_path / "ann.json", ["--memory", str(tmp_path / "memory.db"), "--a2a", "ann"]
    memory.close()
    assert run(["export", *options, str(file)]) == 0
    assert capsys.readouterr().out.startswith(f"{file}: ")
    assert run(["export", *options, "-"]) == 0
    written, printed = json.loads(file.read_text(encoding="utf-8")), json.loads(capsys.readouterr().out)
    assert written["params"]["overall"] == printed["params"]["overall"]
    assert written["params"]["agent"] == "ann"


def test_a_stranger_has_no_card(memory):
    with pytest.raises(InputError, match="peer is 'carl'; expected one of"):
        trust_extension(memory, "carl")
