"""``sigma-mem demo`` from the outside."""

import json
import re
import socket
import sys
from pathlib import Path

import pytest

from sigma_mem.demo.run import UNGRADED


def test_json_twice_the_same(call):
    first, second = (call("demo", "--tasks", "60", "--seed", "2", "--json") for _ in range(2))
    assert first == second
    found = json.loads(first)
    assert (found["tasks"], found["seed"], found["fault"]["after_task"]) == (60, 2, 30)


def test_quiet_prints_the_table_only(call):
    out = call("demo", "--tasks", "20", "--quiet")
    assert "Σ-Mem route" in out
    assert "trusted:" not in out


def test_its_memory_can_be_inspected_afterwards(file, call, values):
    values("demo", "--tasks", "20", "--memory", file)
    assert values("inspect")["events"] == 20
    assert "exists" in call("demo", "--tasks", "20", "--memory", file, code=2)


@pytest.mark.parametrize("arguments", [("--tasks", "1"), ("--tasks", "many"), ("--speed", "-1")])
def test_bad_options(arguments, call):
    assert arguments[0] in call("demo", "--quiet", "--tasks", "4", *arguments, code=2)


def test_served_it_prints_the_dashboard_first_and_ends_by_itself(file, call, values, monkeypatch):
    monkeypatch.chdir(file.parent)
    Path("sigma-mem.toml").write_text("port = 1\nkeys = 'nowhere'\n")  # no matter to the demo
    monkeypatch.setenv("SIGMA_MEM_HOST", "0.0.0.0")
    lines = call("demo", "--serve", "--tasks", "20", "--memory", file).splitlines()
    assert re.fullmatch(r"dashboard: http://127\.0\.0\.1:\d+/dashboard/#/default/trust/topic=\w+", lines[0])
    assert any(line.startswith("task    20") for line in lines)
    assert values("inspect")["events"] == 20 + UNGRADED  # the service has let go of its file


def test_served_on_a_port_that_is_taken_is_one_line(call):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        line = call("demo", "--serve", "--tasks", "20", "--port", port, code=1)
    assert "did not start" in line
    assert "port" in line


def test_served_without_the_extra_names_it(call, monkeypatch):
    monkeypatch.setitem(sys.modules, "fastapi", None)
    assert "sigma-mem[serve]" in call("demo", "--serve", "--tasks", "20", code=1)
