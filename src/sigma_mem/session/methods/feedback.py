"""Methods that take feedback, and say what its sources are worth."""

from __future__ import annotations

from collections.abc import Mapping

from sigma_mem.events import Decision, Feedback
from sigma_mem.session.feedback import append_feedback, append_revocation
from sigma_mem.session.methods.held import HeldMemory
from sigma_mem.session.names import id_of
from sigma_mem.session.sources import Source, list_sources


class FeedbackMethods(HeldMemory):
    """Say who was right, or take that back."""

    def feedback(
        self,
        decision: str | Decision,
        labels: Mapping[str, object] | None = None,
        *,
        scores: Mapping[str, object] | None = None,
        source: str = "default",
        id: str | None = None,
        amend: bool = False,
        wait: bool = True,
    ) -> Feedback:
        """Say who was right: for some or all peers, now or late. Returns once it is on disk.

        Feedback is idempotent: the same labels again change nothing. Another label for a peer that the same
        source labelled before is an error, unless it amends; the result is then as if it had been the first.

        Parameters
        ----------
        decision : str or Decision
            Any decision on the event, its id, or the ref of the event.
        labels : mapping
            Peer → bool, or c ∈ [−1, 1]. A peer left out is unlabelled: missing is not wrong. The integer 1 is
            right; the integer 0 is refused, since it could mean wrong (False) or undecided (0.0).
        scores : mapping
            Peer → s ∈ [0, 1], where 0 is wrong and 1 is right: the label is c = 2s − 1.
        source : str
            Who says so. Sources that are not trusted weigh less (`Settings.trusted`); `revoke` takes back all
            that a source said. A peer cannot label itself.
        id : str, optional
            Of this feedback, for senders that retry.
        amend : bool
            Replace what this source said of these peers.
        wait : bool
            Whether to return only once it is on disk. Who sends many leaves that out, and calls
            ``store.flush()`` after the last.
        """
        said, time = id_of(decision), self._clock()
        return append_feedback(self._journal, said, labels, scores, source, id, amend, time, wait)

    def revoke(self, source: str) -> int:
        """Take back all feedback of a source; return how many lines that were.

        The memory is then as if that source had never spoken, and the source is not heard again, until
        `unrevoke`. Decisions made meanwhile stay, and so do the p̂ they claimed and the weights that other
        sources had.
        """
        return append_revocation(self._journal, source, False, self._clock())

    def unrevoke(self, source: str) -> int:
        """Take a revocation back: all feedback of the source counts again; return how many lines that are."""
        return append_revocation(self._journal, source, True, self._clock())

    def sources(self) -> list[Source]:
        """Everyone who gave feedback or is trusted, by name: how often, and what that is worth now."""
        with self._journal as fold:
            return list_sources(fold, self.store.sources(self._namespace))
