"""The upstreams of a service, and which of them may be asked now."""

from collections.abc import Iterable, Mapping, Sequence

from sigma_mem.serve.config import Upstream
from sigma_mem.serve.gateway.upstream import UpstreamPeer, open_http_client


class Pool:
    """Every configured upstream, by name; closes their connections."""

    def __init__(self, upstreams: Iterable[Upstream]) -> None:
        self._client = open_http_client()
        self._peers = {upstream.name: UpstreamPeer(upstream, self._client) for upstream in upstreams}

    def __getitem__(self, name: str) -> UpstreamPeer:
        return self._peers[name]

    def __contains__(self, name: object) -> bool:
        return name in self._peers

    @property
    def names(self) -> list[str]:
        """All of them, in the order of the configuration."""
        return list(self._peers)

    def usable(self, names: Iterable[str]) -> list[str]:
        """Those whose circuit is closed; all, where no circuit is: a last try is better than none."""
        known = [name for name in names if name in self._peers]
        return [name for name in known if self._peers[name].circuit.is_closed()] or known

    async def close(self) -> None:
        """Close all connections."""
        await self._client.aclose()


def best_first(names: Sequence[str], probs: Mapping[str, float], first: str | None = None) -> list[str]:
    """The chosen peer, then the others by p̂."""
    order = sorted(names, key=lambda name: -probs.get(name, 0.0))
    return order if first is None else [first, *(name for name in order if name != first)]
