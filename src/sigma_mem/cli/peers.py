"""``sigma-mem peers``: who is in the pool, and changes of it."""

from typing import Annotated

import typer

from sigma_mem.cli.options import Json, MemoryFile, Namespace, existing, opened, opened_to_read
from sigma_mem.cli.output import print_json, print_table, say

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Who is in the pool, and changes of it.")

Peer = Annotated[str, typer.Argument(help="Name of the peer.", show_default=False)]
Keep = Annotated[float, typer.Option(min=0.0, max=1.0, help="Share of its record that stays.")]


@app.command("list")
def list_peers(memory: MemoryFile, namespace: Namespace = "default", json: Json = False) -> None:
    """List the pool, and how far each peer can be trusted whatever the task."""
    with opened_to_read(memory, namespace) as mem:
        overall = mem.table().overall
    if json:
        print_json({"peers": overall.to_dict()})
    else:
        print_table((), [(peer, str(found)) for peer, found in overall.items()])


@app.command()
def add(
    peer: Peer,
    memory: MemoryFile,
    returning: Annotated[
        bool, typer.Option("--returning", help="It was removed before, and starts with nothing known.")
    ] = False,
    namespace: Namespace = "default",
    json: Json = False,
) -> None:
    """Take a peer into the pool, last in order."""
    with opened(memory, namespace) as mem:
        mem.add_peer(peer, returning=returning)
        _say(mem.peers, json)


@app.command()
def remove(peer: Peer, memory: MemoryFile, namespace: Namespace = "default", json: Json = False) -> None:
    """Take a peer out of the pool, and forget what is known of it."""
    with opened(memory, namespace) as mem:
        mem.remove_peer(peer)
        _say(mem.peers, json)


@app.command()
def reset(
    peer: Peer, memory: MemoryFile, keep: Keep = 0.2, namespace: Namespace = "default", json: Json = False
) -> None:
    """Say that a model was updated under its name: only a share of its record counts from here on."""
    with opened(memory, namespace) as mem:
        mem.reset_peer(peer, keep=keep)
        _say(mem.peers, json)


@app.command()
def rename(
    peer: Peer,
    name: Annotated[str, typer.Argument(help="Its new name.", show_default=False)],
    memory: MemoryFile,
    namespace: Namespace = "default",
    json: Json = False,
) -> None:
    """Give a peer another name; everything that is known of it stays."""
    with opened(memory, namespace) as mem:
        mem.rename_peer(peer, name)
        _say(mem.peers, json)


@app.command()
def replace(
    peer: Peer,
    by: Annotated[str, typer.Argument(help="Who takes its place.", show_default=False)],
    memory: MemoryFile,
    keep: Keep = 0.2,
    namespace: Namespace = "default",
    json: Json = False,
) -> None:
    """Put another peer in the place of one, with a share of its record."""
    with opened(memory, namespace) as mem:
        mem.replace_peer(peer, by, keep=keep)
        _say(mem.peers, json)


@app.command()
def sync(
    peers: Annotated[list[str], typer.Argument(help="All names of the pool.", show_default=False)],
    memory: MemoryFile,
    namespace: Namespace = "default",
    json: Json = False,
) -> None:
    """Match the pool to names: who is missing is added, who is not named is removed."""
    from sigma_mem.session import SigmaMem

    with SigmaMem(peers, existing(memory), sync=True, namespace=namespace) as mem:
        _say(mem.peers, json)


def _say(peers: tuple[str, ...], as_json: bool) -> None:
    say(as_json, {"peers": list(peers)}, f"peers: {', '.join(peers)}")
