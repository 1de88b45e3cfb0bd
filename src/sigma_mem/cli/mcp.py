"""``sigma-mem mcp``: a memory for an agent that speaks the Model Context Protocol."""

from typing import Annotated

import typer

from sigma_mem.cli.decisions import EncoderName, Peers, TaskOptions
from sigma_mem.cli.options import MemoryFile, Namespace
from sigma_mem.decide import READS


def mcp(
    memory: MemoryFile,
    peers: Peers = None,
    namespace: Namespace = "default",
    encoder: EncoderName = None,
    source: Annotated[str, typer.Option(help="Who gives the feedback that comes this way.")] = "default",
) -> None:
    """Serve a memory to an agent over standard input and output, until that ends.

    Examples:
    sigma-mem mcp --memory memory.db

    sigma-mem mcp --memory memory.db --peers gemma,phi,coder --source my-agent
    """
    from sigma_mem.serve.mcp import serve_stdio

    with TaskOptions(memory, peers, namespace, encoder=encoder).opened(READS) as mem:
        serve_stdio(mem, namespace, source)
