"""HTTP connections that send head and body of a response together: a packet and a system call fewer."""

import asyncio
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

_MOST = 65_536  # bytes that wait for the end of a step of the event loop

_protocol: Any = AutoHTTPProtocol  # the best that is installed, chosen when uvicorn is imported


class JoinedProtocol(_protocol):  # type: ignore[misc]
    """uvicorn's protocol, on a transport that joins what is written in one step of the event loop."""

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Begin on the joining transport."""
        super().connection_made(_Joining(transport))


class _Joining:
    """A transport whose writes wait until the event loop's next step, and then leave as one."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport, self._waiting, self._size = transport, list[bytes](), 0
        self._soon = asyncio.get_running_loop().call_soon

    def write(self, data: bytes) -> None:
        """Send soon; at once where much waits already."""
        if not self._waiting:
            self._soon(self._flush)
        self._waiting.append(data)
        self._size += len(data)
        if self._size > _MOST:
            self._flush()

    def close(self) -> None:
        """Send what waits, then close."""
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        if self._waiting:
            data = b"".join(self._waiting)
            self._waiting, self._size = [], 0
            self._transport.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)
