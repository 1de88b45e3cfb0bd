"""``sigma-mem route``, ``vote``, ``decide``, ``ask`` and ``feedback``: use a memory, and teach it."""

from functools import partial
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from sigma_mem.cli.options import MemoryFile, changes, makes, named_values, takes
from sigma_mem.cli.output import Found, print_table
from sigma_mem.decide import READS
from sigma_mem.errors import InputError
from sigma_mem.events import Decision
from sigma_mem.ledger.costs import Budget
from sigma_mem.session import SigmaMem
from sigma_mem.session.panel import Panel
from sigma_mem.streams.tables import number, signed_label

# Of a decision, in JSON.
_VALUES = ("id", "event", "ref", "read", "peer", "answer", "confidence", "propensity", "cost")
_BY_PEER = ("scores", "probs", "effective", "canons")
_VOTES = list(READS.votes)
Vote = Annotated[str, Option(help=f"How to weigh: {', '.join(_VOTES)}.")]


@makes
@takes("route", "question")
def route(
    mem: SigmaMem,
    memory: MemoryFile,
    budget: Annotated[float | None, Option(help="Amount to spend in the period --over.")] = None,
    over: Annotated[
        str, Option(help="The budget's period: a number of events, or seconds as 86400s.")
    ] = "1000",
    **given: Any,
) -> Found:
    """Choose a peer for a question, before anyone answers.

    Examples:
    sigma-mem route --memory memory.db --peers gemma,phi,coder "What is 17 * 23?"

    sigma-mem route --memory memory.db --topic arithmetic --json "What is 17 * 23?"

    sigma-mem route --memory memory.db --min-prob 0.8 --max-cost 0.01 --ref trace-7 "What is 17 * 23?"

    sigma-mem route --memory memory.db --explore --budget 5 --over 86400s "What is 17 * 23?"
    """
    return _found(mem.route(budget=None if budget is None else _budget(budget, over), **given), memory)


@makes
@takes("vote", "question")
def vote(mem: SigmaMem, memory: MemoryFile, read: Vote = _VOTES[0], **given: Any) -> Found:
    """Choose among the peers' answers; equal ones vote together.

    Examples:
    sigma-mem vote --memory memory.db "What is 17 * 23?" --answer gemma=391 --answer coder=381

    sigma-mem vote --memory memory.db --after ID "What is 17 * 23?" -a gemma=391 -a coder=381 --json

    sigma-mem vote --memory memory.db --canon json "As JSON?" -a gemma='{"a": 1}' -a coder='{"a":1}'
    """
    return _found(mem.vote(read=read, **given), memory)


@makes
@takes("decide", "question")
def decide(mem: SigmaMem, memory: MemoryFile, **given: Any) -> Found:
    """Choose among the peers' answers: several votes, weighted by how often each was right.

    Examples:
    sigma-mem decide --memory memory.db "What is 17 * 23?" --answer gemma=391 --answer coder=381

    sigma-mem decide --memory memory.db --min-confidence 0.9 "What is 17 * 23?" -a gemma=391 -a coder=381
    """
    return _found(mem.decide(**given), memory)


@makes
@takes("ask", "question")
def ask(
    mem: SigmaMem,
    memory: MemoryFile,
    answer: Annotated[
        list[str] | None, Option("--answer", "-a", help="peer=text, as the answers come.", show_default=False)
    ] = None,
    **given: Any,
) -> Found:
    """Ask one peer after another: print whom to ask next, or that the answers so far are enough.

    Examples:
    sigma-mem ask --memory memory.db --ref task-7 "What is 17 * 23?"

    sigma-mem ask --memory memory.db --ref task-7 "What is 17 * 23?" --answer gemma=391
    """
    panel = mem.ask(**given)
    for peer, text in named_values(answer or [], "answer").items():
        panel.add(peer, text)
    about = {"next": panel.next, "change": panel.change, "asked": list(panel.answers)}
    return {**about, **_values(panel.decision)}, partial(_print_panel, panel, memory)


@changes
@takes("feedback", "decision")
def feedback(
    mem: SigmaMem,
    labels: Annotated[
        list[str] | None,
        Argument(metavar="PEER=LABEL...", help="true, false, or -1 to 1.", show_default=False),
    ] = None,
    scores: Annotated[
        bool, Option("--scores", help="The values are scores from 0 (wrong) to 1 (right).")
    ] = False,
    source: Annotated[str, Option(help="Source of these labels: a person or program.")] = "default",
    served: Annotated[
        str | None, Option(help="The peer that answered in the end, if not the chosen one.")
    ] = None,
    cost: Annotated[float | None, Option(min=0.0, help="What the call cost.")] = None,
    latency: Annotated[float | None, Option(min=0.0, help="Seconds that it took.")] = None,
    **given: Any,
) -> Found:
    """Record which peers were right, or which peer answered in the end and what that cost.

    Examples:
    sigma-mem feedback --memory memory.db ID gemma=true phi=true coder=false --source unit-tests

    sigma-mem feedback --memory memory.db ID coder=true --source unit-tests --amend

    sigma-mem feedback --memory memory.db ID gemma=0.8 coder=0 --scores --source rubric

    sigma-mem feedback --memory memory.db ID --served coder --cost 0.002
    """
    said = {peer: _label(peer, text, scores) for peer, text in named_values(labels or [], "label").items()}
    answered = not (served is None and cost is None and latency is None)
    if not said and not answered:
        raise InputError("got no PEER=LABEL, --served, --cost or --latency; expected one of them")
    values: dict[str, Any] = {}
    lines = []
    if answered:
        named = None if source == "default" else source
        now = mem.served(given["decision"], served, cost=cost, latency=latency, source=named)
        values |= {key: getattr(now, key) for key in ("event", "peer", "served", "propensity", "cost")}
        charged = "" if now.cost is None else f", cost {now.cost:g}"
        lines.append(f"decision {now.id}: {now.served} answered{charged}")
    if said:
        shares, signed = (said, None) if scores else (None, said)
        taken = mem.feedback(labels=signed, scores=shares, source=source, **given)
        values |= {key: getattr(taken, key) for key in ("id", "event", "labels", "source", "amends")}
        told = ", ".join(f"{peer} {c:+g}" for peer, c in taken.labels.items())
        lines.append(f"taken: {told} from {taken.source} on event {taken.event}")
    return values, "\n".join(lines)


def _budget(amount: float, over: str) -> Budget:
    """A budget over a number of events ("1000") or seconds ("86400s")."""
    number = over.removesuffix("s")
    if not number.isdigit():
        raise InputError(f"got --over {over}; expected a number of events, or seconds as in 86400s")
    return Budget(amount, seconds=float(number)) if number != over else Budget(amount, events=int(number))


def _label(peer: str, text: str, is_score: bool) -> float:
    found = number(text) if is_score else signed_label(text)
    if found is None:
        raise InputError(
            f"label of {peer!r} is {text!r}; expected true, false or a number in [-1, 1]: {peer}=false for "
            f"wrong, {peer}=0.0 for undecided, or --scores for scores from 0 to 1"
        )
    return found


def _found(decision: Decision, memory: Path) -> Found:
    return _values(decision), partial(_print, decision, memory)


def _values(decision: Decision) -> dict[str, Any]:
    """A decision as JSON."""
    by_peer = {key: dict(getattr(decision, key)) for key in _BY_PEER}
    values = {key: getattr(decision, key) for key in _VALUES}
    return {**values, **by_peer, "topics": list(decision.topics)}


def _print_panel(panel: Panel, memory: Path) -> None:
    enough = f"enough: the rest would change the answer with a chance of {panel.change:.0%}"
    print_table((), (), [enough if panel.next is None else f"ask {panel.next} next"])
    if panel.answers:
        _print(panel.decision, memory)


def _print(decision: Decision, memory: Path) -> None:
    """Print which peer was chosen and why, and how to send feedback."""
    answer = f": {decision.answer!r}" if decision.answer is not None else ""
    chosen = decision.peer or f"nobody: {decision.details['abstained'].get('because', 'not sure enough')}"
    text = decision.details.get("text_log_odds", {})
    rows = []
    for peer, prob in decision.probs.items():
        cells = [f"{prob:.2f}", f"{decision.effective[peer]:.1f}", f"{decision.scores[peer]:+.4f}"]
        rows.append((peer, *cells, *([f"{text[peer]:+.2f}"] if text else [])))
    header = ("peer", "p right here", "evidence", "score φᵀMφ", *(("text log-odds",) if text else ()))
    then = f"sigma-mem feedback --memory {memory} {decision.id} {next(iter(decision.probs))}=true …"
    remarks = [f"decision {decision.id} ({decision.read})", f"next: {then}"]
    title = f"{chosen}{answer} (confidence {decision.confidence:.0%})"
    print_table(header, rows, remarks, title=title, bold=decision.peer)
