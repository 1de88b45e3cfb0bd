"""Players whose memory goes through something in the middle of a stream."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sigma_mem.bench.progressive import MemoryPlayer
from sigma_mem.events import Event, FloatArray
from sigma_mem.session import SigmaMem

__all__ = ["JoiningPlayer", "RestartedPlayer", "RevokingPlayer"]


class JoiningPlayer(MemoryPlayer):
    """A peer joins the pool before the event at ``place``."""

    def __init__(self, memory: SigmaMem, peer: str, place: int) -> None:
        super().__init__(memory)
        self._peer, self._place = peer, place

    def decide(self, event: Event, phi: FloatArray) -> Mapping[str, int]:
        """`SigmaMem.add_peer` when it is due, then `SigmaMem.decide`."""
        if len(self._ids) == self._place:
            self.memory.add_peer(self._peer)
        return super().decide(event, phi)


class RevokingPlayer(MemoryPlayer):
    """A source is revoked before the event at ``place``, and not heard again."""

    def __init__(self, memory: SigmaMem, source: str, place: int) -> None:
        super().__init__(memory)
        self._source, self._place = source, place

    def decide(self, event: Event, phi: FloatArray) -> Mapping[str, int]:
        """`SigmaMem.revoke` when it is due, then `SigmaMem.decide`."""
        if len(self._ids) == self._place:
            self.memory.revoke(self._source)
        return super().decide(event, phi)

    def hear(self, place: int, labels: Mapping[str, float], source: str) -> None:
        """Feedback of anyone who was not revoked."""
        if source != self._source or len(self._ids) <= self._place:
            super().hear(place, labels, source)


class RestartedPlayer(MemoryPlayer):
    """The memory is closed and opened again from its file before the event at ``place``."""

    def __init__(self, open_memory: Callable[[], SigmaMem], place: int) -> None:
        super().__init__(open_memory())
        self._open, self._place = open_memory, place

    def decide(self, event: Event, phi: FloatArray) -> Mapping[str, int]:
        """Restart when it is due, then `SigmaMem.decide`."""
        if len(self._ids) == self._place:
            self.close()
            self.memory = self._open()
        return super().decide(event, phi)

    def close(self) -> None:
        """Let go of the file."""
        self.memory.close()
