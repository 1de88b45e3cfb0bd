"""One agent and one memory, over standard input and output."""

from sigma_mem.serve.mcp.memories import FileMemory
from sigma_mem.serve.mcp.server import MemoryServer
from sigma_mem.session import SigmaMem


def serve_stdio(mem: SigmaMem, namespace: str, source: str) -> None:
    """Serve until standard input ends.

    Parameters
    ----------
    source : str
        Under which name feedback is taken.
    """
    MemoryServer(FileMemory(mem, namespace, source)).run("stdio")
