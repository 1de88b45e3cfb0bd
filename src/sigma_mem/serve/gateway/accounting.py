"""What calls cost, what a limit leaves of them, and which upstreams are left alone for a while."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from sigma_mem.errors import InputError
from sigma_mem.serve.config import Upstream
from sigma_mem.serve.gateway.message import Usage
from sigma_mem.serve.memories import ServedMemory
from sigma_mem.session import SigmaMem

_FAILURES = 3  # in a row, until the circuit opens
_PAUSE = 5.0  # seconds; doubled with every further failure
_LONGEST = 300.0


class Circuit:
    """Whether one upstream should be called.

    Closed while it answers. After three failures in a row it opens, for a pause that doubles with every
    further failure; the first call after a pause is a trial, and the others wait for how that ends. A rate
    limit opens it for as long as the upstream asks. None of this is evidence about the peer's answers.

    Examples
    --------
    >>> now = 0.0
    >>> circuit = Circuit(clock=lambda: now)
    >>> for _ in range(3):
    ...     circuit.failed()
    >>> circuit.is_closed()
    False
    >>> now = 5.0
    >>> circuit.is_closed()
    True
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failures = 0
        self._open_until = 0.0

    def is_closed(self) -> bool:
        """Whether a call may be made now."""
        return self._clock() >= self._open_until

    def begin(self) -> None:
        """A call starts; if the circuit was open before, it is the only trial until it ends."""
        if self._failures >= _FAILURES:
            further = min(self._failures - _FAILURES, 10)
            self._open_until = self._clock() + min(_PAUSE * 2.0**further, _LONGEST)

    def succeeded(self) -> None:
        """The upstream answered, whatever it said."""
        self._failures, self._open_until = 0, 0.0

    def failed(self) -> None:
        """It could not be reached, took too long, or sent what is no answer."""
        self._failures += 1
        self.begin()

    def limited(self, seconds: float) -> float:
        """It asked to be left alone for some time; returns for how long it will be."""
        wait = min(seconds, _LONGEST) if seconds > 1.0 else 1.0  # 1 for NaN too
        self._open_until = self._clock() + wait
        return wait


class Pricing:
    """Tells a memory what its peers cost, once; prices that the configuration leaves out stay."""

    def __init__(self, upstreams: Iterable[Upstream]) -> None:
        self._priced = [upstream for upstream in upstreams if upstream.has_price]
        self._told: dict[str, tuple[str, ...]] = {}

    async def tell(self, memory: ServedMemory, peers: tuple[str, ...]) -> None:
        """Set the prices of this memory's peers, unless that was done for the same pool."""
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


def price_of(upstream: Upstream, usage: Usage) -> float:
    """What a call cost at the upstream's prices, which are those of a million tokens."""
    fresh = max(0, usage.input - usage.cached) * upstream.input_price
    return (fresh + usage.cached * upstream.cached + usage.output * upstream.output_price) / 1e6


def expected_costs(mem: SigmaMem, question: str) -> dict[str, float]:
    """What a call to each peer with a price is expected to cost."""
    with mem.journal as fold:
        return {peer: price.of_call(len(question)) for peer, price in fold.costs.prices.items()}


def affordable(names: Sequence[str], costs: Mapping[str, float], most: float) -> list[str]:
    """The peers, in this order, that can be called together for that much.

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


def summed_usage(usages: Iterable[object]) -> dict[str, Any] | None:
    """Token counts of several answers, added up key by key; None if none was reported.

    >>> summed_usage([{"total_tokens": 3, "details": {"cached": 1}}, None, {"total_tokens": 4}])
    {'total_tokens': 7, 'details': {'cached': 1}}
    """
    found = [usage for usage in usages if isinstance(usage, Mapping)]
    if len(found) <= 1:
        return dict(found[0]) if found else None
    total: dict[str, Any] = {}
    for key in dict.fromkeys(key for usage in found for key in usage):
        values = [usage[key] for usage in found if usage.get(key) is not None]
        if any(isinstance(value, Mapping) for value in values):
            total[key] = summed_usage(values)
        elif values and all(isinstance(v, int | float) and not isinstance(v, bool) for v in values):
            total[key] = sum(values)
        else:
            total[key] = values[0] if values else None
    return total
