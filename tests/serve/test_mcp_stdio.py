"""The official client against ``sigma-mem mcp``: a process, a file, every tool."""

import asyncio
import json
import os
import subprocess
import sys
from contextlib import asynccontextmanager

from mcp import Client, StdioServerParameters

from sigma_mem.cli.app import run
from sigma_mem.session import SigmaMem

QUESTION = "What is 17 * 23?"
TOOLS = {"route", "vote", "decide", "ask", "add_answer", "feedback", "explain", "trust", "peers"}


@asynccontextmanager
async def agent(memory, *options):
    """The client of an agent that started the command."""
    arguments = ["-c", "from sigma_mem.cli import main; main()", "mcp", "--memory", str(memory), *options]
    command = StdioServerParameters(command=sys.executable, args=arguments, env=dict(os.environ))
    async with Client(command) as client:
        yield client


async def called(client, tool, **arguments):
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    return result.structured_content


async def refused(client, tool, **arguments):
    result = await client.call_tool(tool, arguments)
    assert result.is_error
    (content,) = result.content
    assert "\n" not in content.text
    return content.text


def test_every_tool_over_stdio(tmp_path):
    memory = tmp_path / "memory.db"

    async def first():
        async with agent(memory, "--peers", "ann,bob,cat", "--encoder", "hashed", "--source", "me") as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert set(tools) == TOOLS
            assert all(tool.description and tool.output_schema["properties"] for tool in tools.values())
            chosen = await called(client, "route", question=QUESTION, ref="trace-1")
            assert chosen["ref"] == "trace-1"
            step = await called(client, "ask", question=QUESTION, ref="panel-1")
            assert (step["next"], step["asked"]) == ("ann", [])
            step = await called(client, "add_answer", ref="panel-1", peer="ann", answer="381")
            assert (step["next"], step["asked"], step["decision"]["answer"]) == ("bob", ["ann"], "381")
            answers = {"ann": "381", "bob": "391", "cat": None}
            for _ in range(4):
                voted = await called(client, "vote", question=QUESTION, answers=answers)
                taken = await called(
                    client, "feedback", decision=voted["decision"], labels={"ann": False, "bob": True}
                )
                assert (taken["source"], taken["labels"]) == ("me", {"ann": -1.0, "bob": 1.0})
            assert (await called(client, "vote", question=QUESTION, answers=answers))["answer"] == "391"
            pool = (await called(client, "peers"))["peers"]
            assert [(peer["name"], peer["labels"]) for peer in pool] == [("ann", 4), ("bob", 4), ("cat", 0)]
            why = await called(client, "explain", decision=voted["decision"], peer="bob", top=2)
            assert len(why["contributions"]) == 2
            assert "bob" in why["text"]
            for where in ({}, {"question": QUESTION}):
                trust = (await called(client, "trust", **where))["peers"]
                assert trust["bob"]["prob"] > trust["cat"]["prob"] > trust["ann"]["prob"]

    async def restarted():
        async with agent(memory) as client:  # everything was on disk, the panel among it
            message = await refused(client, "add_answer", ref="panel-1", peer="bob", answer="391")
            assert "call ask with the question and ref 'panel-1'" in message
            step = await called(client, "ask", question=QUESTION, ref="panel-1")
            assert (step["next"], step["asked"]) == ("bob", ["ann"])
            step = await called(client, "add_answer", ref="panel-1", peer="bob", answer="391")
            assert (step["next"], step["decision"]["peer"]) == (None, "bob")  # who was right since

    asyncio.run(first())
    asyncio.run(restarted())
    with SigmaMem(path=memory) as mem:
        assert "me" in [source.name for source in mem.sources()]
        assert mem.decision("trace-1").question == QUESTION


def test_what_is_refused_says_what_to_do(tmp_path):
    async def main():
        async with agent(tmp_path / "m.db", "--peers", "ann,bob", "--encoder", "hashed") as client:
            assert "question" in await refused(client, "route")
            assert "some of ['question', 'explore', 'topic'" in await refused(client, "route", qestion="x")
            assert "feedback got nothing as decision; expected" in await refused(
                client, "feedback", labels={"ann": True}
            )
            assert "expected" in await refused(client, "feedback", decision="no", labels={"ann": True})
            assert "feedback got 7 as labels.ann" in await refused(
                client, "feedback", decision="no", labels={"ann": 7}
            )
            chosen = await called(client, "route", question=QUESTION)
            assert "'dan'" in await refused(
                client, "feedback", decision=chosen["decision"], labels={"dan": True}
            )
            assert "leave it out" in await refused(client, "trust", namespace="other")
            assert "expected one of ['add_answer'" in await refused(client, "rout")

    asyncio.run(main())


def test_what_was_acknowledged_survives_a_kill(tmp_path):
    """In the protocol's own lines, since the client would end the process gently."""
    memory = tmp_path / "memory.db"
    command = [sys.executable, "-c", "from sigma_mem.cli import main; main()", "mcp", "-m", str(memory)]
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    with subprocess.Popen(
        [*command, "--peers", "ann,bob", "--encoder", "hashed"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:

        def send(method, **message):
            process.stdin.write(json.dumps({"jsonrpc": "2.0", "method": method, **message}) + "\n")
            process.stdin.flush()

        def call(id, tool, **arguments):
            send("tools/call", id=id, params={"name": tool, "arguments": arguments})
            return json.loads(process.stdout.readline())["result"]["structuredContent"]

        try:
            send("initialize", id=1, params=hello)
            assert json.loads(process.stdout.readline())["result"]["serverInfo"]["name"] == "sigma-mem"
            send("notifications/initialized")
            decided = call(2, "route", question=QUESTION)["decision"]
            call(3, "feedback", decision=decided, labels={"ann": True})
            last = call(4, "route", question=QUESTION)["decision"]
        finally:
            process.kill()
    with SigmaMem(path=memory) as mem:
        assert mem.decision(decided).labels == {"ann": 1.0}
        assert mem.decision(last).question == QUESTION


def test_without_the_library_it_names_the_extra(tmp_path, monkeypatch, capsys):
    for name in [name for name in sys.modules if name.startswith("sigma_mem.serve.mcp")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "mcp", None)
    assert run(["mcp", "--memory", str(tmp_path / "memory.db"), "--peers", "a,b"]) == 1
    assert "pip install 'sigma-mem[mcp]'" in capsys.readouterr().err
    assert not (tmp_path / "memory.db").exists()


def test_a_memory_that_is_not_there_needs_peers(tmp_path, capsys):
    assert run(["mcp", "--memory", str(tmp_path / "memory.db")]) == 2
    assert "--peers a,b,c" in capsys.readouterr().err
