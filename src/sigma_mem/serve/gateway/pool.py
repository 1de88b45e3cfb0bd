"""The upstreams of a service, and which of them may be asked now."""

import errno
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence

import aiohttp

from sigma_mem.serve.config import Upstream, is_no_servers
from sigma_mem.serve.gateway.upstream import UpstreamPeer


class Pool:
    """Every configured upstream, by name, and the connections that they share.

    Parameters
    ----------
    upstreams : iterable of Upstream
    count : callable
        Is told an upstream's name and how a call ended.
    """

    def __init__(self, upstreams: Iterable[Upstream], count: Callable[[str, str], None]) -> None:
        self._opened: aiohttp.ClientSession | None = None
        self._peers = {each.name: UpstreamPeer(each, self._session, count) for each in upstreams}

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
        if self._opened is not None:
            await self._opened.close()

    def _session(self) -> aiohttp.ClientSession:
        """Opened with the first call, since it belongs to the event loop that runs then."""
        if self._opened is None:
            connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=30.0, socket_factory=_socket)
            # No cookies are kept: they would carry one client's session to another.
            self._opened = aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())
        return self._opened


def _socket(info: aiohttp.AddrInfoType) -> socket.socket:
    """A socket for an address that a name led to; OSError where no server should be."""
    family, kind, protocol, _, address = info
    if is_no_servers(str(address[0])):
        raise OSError(errno.EACCES, f"{address[0]} is a link-local, multicast or empty address")
    return socket.socket(family, kind, protocol)


def best_first(names: Sequence[str], probs: Mapping[str, float], first: str | None = None) -> list[str]:
    """The chosen peer, then the others by p̂."""
    order = sorted(names, key=lambda name: -probs.get(name, 0.0))
    return order if first is None else [first, *(name for name in order if name != first)]
