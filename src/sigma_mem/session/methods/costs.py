"""Methods about who really answered, and what calls cost."""

from __future__ import annotations

from sigma_mem.errors import InputError
from sigma_mem.events import Decision
from sigma_mem.ledger.costs import Price, Spending, price_line
from sigma_mem.session.methods.held import HeldMemory
from sigma_mem.session.names import id_of
from sigma_mem.session.served import append_served


class CostMethods(HeldMemory):
    """Say and see what calls to peers cost."""

    def served(
        self,
        decision: str | Decision,
        peer: str | None = None,
        *,
        cost: float | None = None,
        latency: float | None = None,
        wait: bool = True,
    ) -> Decision:
        """Say who really answered, where a caller takes another peer than the decision chose, and its cost.

        A line of the ledger: the decision then has `served`, and its propensity is 0 where that is not the
        peer it chose, since no draw of this memory chose it. Feedback goes on as usual. Said again, the last
        one counts. Returns the decision as it now stands, once it is on disk.

        Parameters
        ----------
        decision : str or Decision
            The decision, its id, or the ref of its event (then the event's last decision).
        peer : str, optional
            Who answered; the peer that was chosen, if left out. It is charged, in place of the chosen one.
        cost, latency : float, optional
            What the call really cost, in place of what was expected, and how many seconds it took.
        wait : bool
            Whether to return only once it is on disk; ``store.flush()`` waits for all that is not.
        """
        return append_served(self._journal, id_of(decision), peer, cost, latency, self._clock(), wait)

    def set_price(
        self,
        peer: str,
        *,
        per_call: float = 0.0,
        per_input_token: float = 0.0,
        per_output_token: float = 0.0,
        output_tokens: float = 300.0,
        latency: float | None = None,
    ) -> Price:
        """Say what a call to a peer costs from now on, in any one unit of money, and how long it takes.

        Parameters
        ----------
        per_call, per_input_token, per_output_token : float
            The call costs their sum; the tokens of a question are estimated from its length.
        output_tokens : float
            How long an answer is expected to be, until `served` has reported real costs.
        latency : float, optional
            Seconds.
        """
        price = Price(per_call, per_input_token, per_output_token, output_tokens, latency)
        with self._journal.writing() as fold:
            if peer not in fold.state.peers:
                raise InputError(f"peer is {peer!r}; expected one of {list(fold.state.peers)}")
            if fold.costs.prices.get(peer) == price:
                return price
            line = price_line(peer, price, fold.costs.price_lines, self._clock())
            ticket = self._journal.append(line)
        ticket.wait()
        return price

    def prices(self) -> dict[str, Price]:
        """The prices that peers of the pool have now."""
        with self._journal as fold:
            return {peer: fold.costs.prices[peer] for peer in fold.state.peers if peer in fold.costs.prices}

    def spent(self, *, since: float | None = None, until: float | None = None) -> Spending:
        """What was spent: in all, by peer, and by day (UTC).

        Parameters
        ----------
        since, until : float, optional
            Seconds since 1970: only the days from the one to the other, both included.
        """
        with self._journal as fold:
            return fold.costs.spending(since, until)
