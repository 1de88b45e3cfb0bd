"""Methods that change the pool."""

from __future__ import annotations

from sigma_mem.session.methods.held import HeldMemory
from sigma_mem.session.peers import (
    append_departure,
    append_join,
    append_rename,
    append_reset,
)


class PeerMethods(HeldMemory):
    """Peers that join, leave, change or get another name."""

    def add_peer(self, peer: str, *, returning: bool = False) -> None:
        """Take a peer into the pool, last in order, with nothing known of it.

        A peer that was removed before must be `returning`, so that nobody starts afresh under a name by
        accident; the ledger says so.
        """
        append_join(self._journal, peer, returning, self._clock())

    def remove_peer(self, peer: str) -> None:
        """Take a peer out of the pool, and forget what is known of it; see `add_peer` for its return."""
        append_departure(self._journal, peer, self._clock())

    def reset_peer(self, peer: str, *, keep: float = 0.2) -> None:
        """Say that a model was updated under its name: only a share of its record counts from here on.

        Labels of events before that count with this share, whenever they come.

        Parameters
        ----------
        peer : str
        keep : float
            The share, from 0 (start afresh) to 1 (nothing changes).
        """
        append_reset(self._journal, peer, keep, self._clock())

    def rename_peer(self, peer: str, name: str) -> None:
        """Give a peer another name; everything that is known of it stays.

        Feedback may still use the old name, which no other peer can have.
        """
        append_rename(self._journal, peer, name, 1.0, self._clock())

    def replace_peer(self, peer: str, by: str, *, keep: float = 0.2) -> None:
        """Put another peer in the place of one, with a share of its record: its successor.

        Parameters
        ----------
        peer, by : str
            Who leaves, and who takes its place in the pool.
        keep : float
            The share of the record that the successor starts with.
        """
        append_rename(self._journal, peer, by, keep, self._clock())
