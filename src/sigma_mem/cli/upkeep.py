"""``sigma-mem peers``, ``prices``, ``sources`` and ``forget``: what an operator changes in a memory."""

from dataclasses import asdict
from functools import partial
from typing import Annotated, Any

import typer
from typer import Argument, Option

from sigma_mem.cli.options import MemoryFile, Namespace, changes, opened, opened_to_read, shows, takes
from sigma_mem.cli.output import Found, print_table
from sigma_mem.errors import InputError
from sigma_mem.session import SigmaMem

Amount = Annotated[float | None, Option(min=0.0, show_default=False)]
_PARTS = ("per_call", "per_input_token", "per_output_token", "latency")  # of a price, that are shown

peers_app = typer.Typer(
    name="peers", no_args_is_help=True, add_completion=False, help="Change the pool of peers."
)


@peers_app.command()
@changes
@takes("add_peer", "peer")
def add(mem: SigmaMem, **given: Any) -> Found:
    """Add a peer to the pool, as its last.

    Examples:
    sigma-mem peers add --memory memory.db large@low --like large --worth 20
    """
    mem.add_peer(**given)
    return _pool(mem)


@peers_app.command()
@changes
@takes("remove_peer", "peer")
def remove(mem: SigmaMem, **given: Any) -> Found:
    """Remove a peer from the pool, and forget what is known about it."""
    mem.remove_peer(**given)
    return _pool(mem)


@peers_app.command()
@changes
@takes("rename_peer", "peer", "name")
def rename(mem: SigmaMem, **given: Any) -> Found:
    """Give a peer another name or a successor, or keep only a share of its record.

    Examples:
    sigma-mem peers rename --memory memory.db phi phi-3

    sigma-mem peers rename --memory memory.db coder --keep 0.2
    """
    mem.rename_peer(**given)
    return _pool(mem)


def _pool(mem: SigmaMem) -> Found:
    return {"peers": list(mem.peers)}, f"peers: {', '.join(mem.peers)}"


@shows
def prices(
    memory: MemoryFile,
    peer: Annotated[str | None, Argument(help="The peer whose price to set.", show_default=False)] = None,
    per_call: Amount = None,
    per_input_token: Amount = None,
    per_output_token: Amount = None,
    output_tokens: Annotated[
        float | None, Option(min=0.0, help="Tokens of an answer, before any cost is known (default 300).")
    ] = None,
    latency: Annotated[float | None, Option(min=0.0, help="Seconds that a call takes.")] = None,
    namespace: Namespace = "default",
) -> Found:
    """Show what each peer costs and what was spent on it, or set a peer's price.

    Examples:
    sigma-mem prices --memory memory.db

    sigma-mem prices --memory memory.db gemma --per-input-token 2.5e-6 --per-output-token 1e-5 --latency 2
    """
    given = {
        "per_call": per_call,
        "per_input_token": per_input_token,
        "per_output_token": per_output_token,
        "output_tokens": output_tokens,
        "latency": latency,
    }
    options = {name: value for name, value in given.items() if value is not None}
    if (peer is None) != (not options):
        raise InputError(
            f"got peer {peer!r} and {len(options)} options of a price; expected both, or neither to show them"
        )
    with (opened_to_read if peer is None else opened)(memory, namespace) as mem:
        if peer is not None:
            mem.set_price(peer, **options)
        spent, peers = mem.spent(), mem.peers
    rows = []
    for name in peers:
        price = spent.prices.get(name)
        amounts = [getattr(price, part, None) for part in _PARTS]
        cells = ["—" if amount is None else f"{amount:g}" for amount in amounts]
        rows.append((name, *cells, f"{spent.by_peer.get(name, 0.0):.6g}"))
    columns = ("peer", "per call", "per input token", "per output token", "seconds", "spent")
    values = asdict(spent)
    return (
        {"prices": values.pop("prices"), "spent": values},
        partial(print_table, columns, rows, [f"total spent: {spent.total:.6g}"]),
    )


@shows
def sources(
    memory: MemoryFile,
    revoke: Annotated[
        str | None, Option(help="Take back all feedback of this source.", show_default=False)
    ] = None,
    undo: Annotated[bool, Option("--undo", help="With --revoke: let it count again instead.")] = False,
    namespace: Namespace = "default",
) -> Found:
    """List the sources of feedback with their weights, or revoke everything that a source gave.

    Examples:
    sigma-mem sources --memory memory.db

    sigma-mem sources --memory memory.db --revoke intern

    sigma-mem sources --memory memory.db --revoke intern --undo
    """
    if revoke is not None:
        with opened(memory, namespace) as mem:
            lines = mem.revoke(revoke, undo=undo)
        values = {"source": revoke, "revoked": not undo, "lines": lines}
        return values, f"{revoke}: {lines} lines of feedback {'count again' if undo else 'taken back'}"
    if undo:
        raise InputError("got --undo without --revoke; expected the source")
    with opened_to_read(memory, namespace) as mem:
        found = mem.sources()
    rows = []
    for source in found:
        what = "revoked" if source.revoked else "trusted" if source.trusted else ""
        agreement = "—" if source.agreement is None else f"{source.agreement:.2f}"
        numbers = (agreement, f"{source.compared:.0f}", f"{source.weight:.3g}")
        rows.append((source.name, str(source.lines), what, *numbers))
    header = ("source", "lines", "status", "agreement", "labels compared", "weight")
    return {"sources": [asdict(source) for source in found]}, partial(print_table, header, rows)


@changes
@takes("forget")
def forget(
    mem: SigmaMem,
    decision: Annotated[
        list[str] | None, Argument(help="Ids of decisions, or refs of events.", show_default=False)
    ] = None,
    **given: Any,
) -> Found:
    """Delete events permanently: texts, φ, labels, and what was learned from them.

    Examples:
    sigma-mem forget --memory memory.db ID

    sigma-mem forget --memory memory.db --before 2025-01-01

    sigma-mem forget --memory memory.db --text "Jane Doe"
    """
    events = mem.forget(decision or None, **given)
    return {"forgotten": events}, f"{events} event{'' if events == 1 else 's'} forgotten"
