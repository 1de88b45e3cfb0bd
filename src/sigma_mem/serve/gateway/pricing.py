"""Prices of the configuration, told to every memory, and what of a limit they leave."""

from collections.abc import Iterable, Mapping, Sequence

from sigma_mem.errors import InputError
from sigma_mem.serve.config import Upstream
from sigma_mem.serve.memories import ServedMemory
from sigma_mem.session import SigmaMem


class Pricing:
    """Tells a memory what its peers cost, once; prices that the configuration leaves out stay."""

    def __init__(self, upstreams: Iterable[Upstream]) -> None:
        self._priced = [upstream for upstream in upstreams if upstream.has_price]
        self._told: dict[str, tuple[str, ...]] = {}

    async def tell(self, memory: ServedMemory) -> None:
        """Set the prices of peers that this memory has, unless that was done for the same pool."""
        peers = memory.mem.peers
        if self._priced and self._told.get(memory.namespace) != peers:
            await memory.slow(self._set_prices)
            self._told[memory.namespace] = peers

    def _set_prices(self, mem: SigmaMem) -> None:
        for upstream in self._priced:
            if upstream.name in mem.peers:
                mem.set_price(
                    upstream.name,
                    per_input_token=upstream.input_price / 1e6,
                    per_output_token=upstream.output_price / 1e6,
                )


def expected_costs(mem: SigmaMem, question: str) -> dict[str, float]:
    """What a call to each peer with a price is expected to cost."""
    return {peer: price.of_call(len(question)) for peer, price in mem.prices().items()}


def affordable(names: Sequence[str], costs: Mapping[str, float], most: float) -> list[str]:
    """Those of the peers, in this order, that can be called together for that much.

    >>> affordable(["a", "b", "c"], {"a": 3.0, "b": 9.0}, 4.0)
    ['a', 'c']
    """
    chosen, left = [], most
    for name in names:
        if costs.get(name, 0.0) <= left:
            chosen.append(name)
            left -= costs.get(name, 0.0)
    if not chosen:
        least = min(names, key=lambda name: costs.get(name, 0.0))
        raise InputError(
            f"max_cost is {most:g}; a call to the cheapest candidate, {least!r}, is expected to cost "
            f"{costs[least]:g}: expected at least that"
        )
    return chosen
