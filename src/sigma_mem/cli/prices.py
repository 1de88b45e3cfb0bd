"""``sigma-mem prices`` and ``served``: what peers cost, what was spent, and who really answered."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from sigma_mem.cli.options import Json, MemoryFile, Namespace, opened, opened_to_read
from sigma_mem.cli.output import print_json, print_table, say
from sigma_mem.errors import InputError

PeerName = Annotated[str | None, typer.Argument(help="The peer to set a price of.", show_default=False)]
Amount = Annotated[float | None, typer.Option(min=0.0, show_default=False)]


def prices(
    memory: MemoryFile,
    peer: PeerName = None,
    per_call: Amount = None,
    per_input_token: Amount = None,
    per_output_token: Amount = None,
    output_tokens: Annotated[
        float | None, typer.Option(min=0.0, help="Of an answer, before any cost is known (default 300).")
    ] = None,
    latency: Annotated[float | None, typer.Option(min=0.0, help="Seconds that a call takes.")] = None,
    namespace: Namespace = "default",
    json: Json = False,
) -> None:
    """Show what peers cost and what was spent on each; with a peer and options, set its price.

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
        found, spent, peers = mem.prices(), mem.spent(), mem.peers
    if json:
        values = {name: asdict(price) for name, price in found.items()}
        print_json({"prices": values, "spent": {**spent._asdict()}})
        return
    rows = []
    for name in peers:
        price = found.get(name)
        cells = (
            ["-"] * 4
            if price is None
            else [
                *(f"{x:g}" for x in (price.per_call, price.per_input_token, price.per_output_token)),
                "-" if price.latency is None else f"{price.latency:g}",
            ]
        )
        rows.append((name, *cells, f"{spent.by_peer.get(name, 0.0):.6g}"))
    columns = ("peer", "per call", "per input token", "per output token", "seconds", "spent")
    print_table(columns, rows, [f"spent in all: {spent.total:.6g}"])


def served(
    decision: Annotated[str, typer.Argument(help="Id of the decision, or the ref of its event.")],
    memory: MemoryFile,
    peer: Annotated[
        str | None, typer.Argument(help="Who answered; the peer chosen, if left out.", show_default=False)
    ] = None,
    cost: Annotated[float | None, typer.Option(min=0.0, help="What the call really cost.")] = None,
    latency: Annotated[float | None, typer.Option(min=0.0, help="Seconds that it took.")] = None,
    namespace: Namespace = "default",
    json: Json = False,
) -> None:
    """Say who really answered, and what that cost.

    Examples:
    sigma-mem served --memory memory.db ID coder --cost 0.002
    """
    with opened(memory, namespace) as mem:
        now = mem.served(decision, peer, cost=cost, latency=latency)
    values = {key: getattr(now, key) for key in ("id", "event", "peer", "served", "propensity", "cost")}
    charged = "" if now.cost is None else f", cost {now.cost:g}"
    say(json, values, f"decision {now.id}: {now.served} answered{charged}")
