"""What commands print."""

import json

from sigma_mem import SigmaMem
from sigma_mem.cli.app import run
from sigma_mem.cli.output import console, print_json, print_table

COMMAND = "\x1b]52;c;cm0gLXJmIH4=\x07\x1b[2J\x9b2J"  # writes the clipboard, clears the screen


def test_no_text_commands_the_terminal(capsys):
    print_table(["peer"], [["ann" + COMMAND]], ["note " + COMMAND])
    console().print("chosen " + COMMAND)
    print_json({"answer": COMMAND})
    printed = capsys.readouterr().out
    assert not {"\x1b", "\x07", "\x9b"} & set(printed)
    assert json.loads(printed.splitlines()[-1]) == {"answer": COMMAND}


def test_commands_show_what_models_and_sources_wrote_without_their_control_characters(tmp_path, capsys):
    path = str(tmp_path / "memory.db")
    with SigmaMem(["a", "b"], path, encoder="hashed") as mem:
        made = mem.vote("q" + COMMAND, {"a": "4" + COMMAND, "b": "5"})
        mem.feedback(made, {"a": True}, source="s" + COMMAND)
    for command in ("decisions", "inspect", "sources"):
        assert run([command, "--memory", path]) == 0
        assert "\x1b" not in capsys.readouterr().out
