"""``sigma-mem route``, ``vote``, ``decide``, ``ask`` and ``feedback``: use a memory, and teach it."""

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, cast

from typer import Argument, Option

from sigma_mem.answers.canon import KINDS, Kind
from sigma_mem.cli.options import (
    MemoryFile,
    Namespace,
    Topics,
    changes,
    check_folder,
    grouped_options,
    named_values,
    names_of,
    shows,
    text_of,
)
from sigma_mem.cli.output import Found, print_table
from sigma_mem.decide import READS
from sigma_mem.decide.panel import CHANGE
from sigma_mem.errors import InputError
from sigma_mem.memory import Settings

if TYPE_CHECKING:
    from sigma_mem.events import Decision
    from sigma_mem.ledger.costs import Budget
    from sigma_mem.session import SigmaMem
    from sigma_mem.session.panel import Panel

# Of a decision, in JSON.
_VALUES = ("id", "event", "ref", "read", "peer", "answer", "confidence", "propensity", "cost")
_BY_PEER = ("scores", "probs", "effective", "canons")
_ROUTES, _VOTES = list(READS.routes), list(READS.votes)

Question = Annotated[str, Argument(help='The task; "-" reads it from standard input.')]
Peers = Annotated[
    str | None,
    Option(help="Names of the peers, separated by commas; makes a new memory.", show_default=False),
]
EncoderName = Annotated[
    str | None, Option("--encoder", help="For a new memory: static (default), hashed, minilm or sentence.")
]
Among = Annotated[str | None, Option(help="Candidates, separated by commas; the others are left out.")]
CanonName = Annotated[str, Option("--canon", help=f"How answers are compared: {', '.join(KINDS)}.")]


@dataclass(frozen=True, slots=True)
class TaskOptions:
    """Which memory decides, and what is known about the task: each field is an option."""

    memory: MemoryFile
    peers: Peers = None
    namespace: Namespace = "default"
    topic: Topics = None
    after: Annotated[
        str | None, Option(help="Id of an earlier decision on the same task: both are one event.")
    ] = None
    ref: Annotated[
        str | None, Option(help="A name of your own for the task: the same one again is the same event.")
    ] = None
    encoder: EncoderName = None
    gamma: Annotated[
        float | None,
        Option(help="For a new memory: what is left of evidence after one event (default 0.9995)."),
    ] = None
    no_text: Annotated[
        bool, Option("--no-text", help="For a new memory: keep numbers only, no questions and answers.")
    ] = False

    @property
    def event(self) -> dict[str, Any]:
        """What identifies the event."""
        return {"topic": self.topic, "after": self.after, "ref": self.ref}

    def opened(self) -> "SigmaMem":
        """The memory; with peers, a new one if there is none."""
        from sigma_mem.session import SigmaMem

        path = self.memory
        if not path.exists() and self.peers is None:
            raise InputError(
                f"got --memory {path}, but there is no such file; give --peers a,b,c to make a new memory"
            )
        check_folder("--memory", path)
        return SigmaMem(
            names_of(self.peers),
            path,
            encoder=self.encoder,
            settings=None if self.gamma is None else Settings(gamma=self.gamma),
            namespace=self.namespace,
            keep_text=False if self.no_text else None,
        )


@dataclass(frozen=True, slots=True)
class AnswerOptions:
    """The peers' answers, and which of them count: each field is an option."""

    answer: Annotated[
        list[str], Option("--answer", "-a", help="peer=text, once per peer.", show_default=False)
    ]
    canon: CanonName = "auto"
    among: Among = None
    min_confidence: Annotated[
        float | None, Option(min=0.0, max=1.0, help="Abstain unless answers like this are right this often.")
    ] = None

    @property
    def given(self) -> dict[str, Any]:
        """Arguments of a method that chooses among answers."""
        answers, among = named_values(self.answer, "answer"), names_of(self.among)
        limits = {"among": among, "min_confidence": self.min_confidence}
        return {"answers": answers, "canon": cast(Kind, self.canon), **limits}


@shows
@grouped_options
def route(
    question: Question,
    read: str = Option(_ROUTES[0], help=f"How to choose: {', '.join(_ROUTES)}."),
    explore: Annotated[
        bool, Option("--explore", help="Try the others too, if only the chosen peer will be labelled.")
    ] = False,
    among: Among = None,
    max_cost: Annotated[
        float | None, Option(help="Leave out peers whose call is expected to cost more.")
    ] = None,
    max_latency: Annotated[float | None, Option(help="Leave out slower peers (seconds).")] = None,
    value: Annotated[
        float | None, Option(help="What a right answer is worth: take the largest p·value − cost.")
    ] = None,
    min_prob: Annotated[
        float | None, Option(help="Take the cheapest peer that is right with this probability.")
    ] = None,
    budget: Annotated[float | None, Option(help="Amount to spend in the period --over.")] = None,
    over: Annotated[
        str, Option(help="The budget's period: a number of events, or seconds as 86400s.")
    ] = "1000",
    *,
    task: TaskOptions,
) -> Found:
    """Choose a peer for a question, before anyone answers.

    Examples:
    sigma-mem route --memory memory.db --peers gemma,phi,coder "What is 17 * 23?"

    sigma-mem route --memory memory.db --topic arithmetic --json "What is 17 * 23?"

    sigma-mem route --memory memory.db --min-prob 0.8 --max-cost 0.01 --ref trace-7 "What is 17 * 23?"

    sigma-mem route --memory memory.db --explore --budget 5 --over 86400s "What is 17 * 23?"
    """
    with task.opened() as mem:
        decision = mem.route(
            text_of(question),
            read=read,
            explore=explore,
            among=names_of(among),
            max_cost=max_cost,
            max_latency=max_latency,
            value=value,
            min_prob=min_prob,
            budget=None if budget is None else _budget(budget, over),
            **task.event,
        )
    return _values(decision), partial(_print, decision, task)


@shows
@grouped_options
def vote(
    question: Question,
    read: str = Option(_VOTES[0], help=f"How to weigh: {', '.join(_VOTES)}."),
    *,
    answers: AnswerOptions,
    task: TaskOptions,
) -> Found:
    """Choose among the peers' answers; equal ones vote together.

    Examples:
    sigma-mem vote --memory memory.db "What is 17 * 23?" --answer gemma=391 --answer coder=381

    sigma-mem vote --memory memory.db --after ID "What is 17 * 23?" -a gemma=391 -a coder=381 --json

    sigma-mem vote --memory memory.db --canon json "As JSON?" -a gemma='{"a": 1}' -a coder='{"a":1}'
    """
    with task.opened() as mem:
        decision = mem.vote(text_of(question), read=read, **answers.given, **task.event)
    return _values(decision), partial(_print, decision, task)


@shows
@grouped_options
def decide(question: Question, *, answers: AnswerOptions, task: TaskOptions) -> Found:
    """Choose among the peers' answers: several votes, weighted by how often each was right.

    Examples:
    sigma-mem decide --memory memory.db "What is 17 * 23?" --answer gemma=391 --answer coder=381

    sigma-mem decide --memory memory.db --min-confidence 0.9 "What is 17 * 23?" -a gemma=391 -a coder=381
    """
    with task.opened() as mem:
        decision = mem.decide(text_of(question), **answers.given, **task.event)
    return _values(decision), partial(_print, decision, task)


@shows
@grouped_options
def ask(
    question: Question,
    answer: Annotated[
        list[str] | None, Option("--answer", "-a", help="peer=text, as the answers come.", show_default=False)
    ] = None,
    canon: CanonName = "auto",
    change: Annotated[
        float, Option(min=0.0, max=1.0, help="Stop at this chance that the rest changes the answer.")
    ] = CHANGE,
    calls: Annotated[int | None, Option(min=1, help="Ask at most this many.")] = None,
    *,
    task: TaskOptions,
) -> Found:
    """Ask one peer after another: print whom to ask next, or that the answers so far are enough.

    Examples:
    sigma-mem ask --memory memory.db --ref task-7 "What is 17 * 23?"

    sigma-mem ask --memory memory.db --ref task-7 "What is 17 * 23?" --answer gemma=391
    """
    with task.opened() as mem:
        kind = cast(Kind, canon)
        panel = mem.ask(text_of(question), canon=kind, change=change, calls=calls, **task.event)
        for peer, text in named_values(answer or [], "answer").items():
            panel.add(peer, text)
    about = {"next": panel.next, "change": panel.change, "asked": list(panel.answers)}
    return {**about, **_values(panel.decision)}, partial(_print_panel, panel, task)


@changes
def feedback(
    mem: "SigmaMem",
    decision: Annotated[str, Argument(help="Id of any decision on the task.", show_default=False)],
    labels: Annotated[
        list[str] | None,
        Argument(metavar="PEER=LABEL...", help="true, false, or -1 to 1.", show_default=False),
    ] = None,
    scores: Annotated[
        bool, Option("--scores", help="The values are scores from 0 (wrong) to 1 (right).")
    ] = False,
    source: Annotated[str, Option(help="Source of these labels: a person or program.")] = "default",
    id: Annotated[str | None, Option(help="Id of this feedback, for senders that retry.")] = None,
    amend: Annotated[
        bool, Option("--amend", help="Replace the earlier labels of this source for these peers.")
    ] = False,
    served: Annotated[
        str | None, Option(help="The peer that answered in the end, if not the chosen one.")
    ] = None,
    cost: Annotated[float | None, Option(min=0.0, help="What the call cost.")] = None,
    latency: Annotated[float | None, Option(min=0.0, help="Seconds that it took.")] = None,
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
        now = mem.served(decision, served, cost=cost, latency=latency, source=named)
        values |= {key: getattr(now, key) for key in ("event", "peer", "served", "propensity", "cost")}
        charged = "" if now.cost is None else f", cost {now.cost:g}"
        lines.append(f"decision {now.id}: {now.served} answered{charged}")
    if said:
        shares, signed = (said, None) if scores else (None, said)
        taken = mem.feedback(decision, signed, scores=shares, source=source, id=id, amend=amend)
        values |= {key: getattr(taken, key) for key in ("id", "event", "labels", "source", "amends")}
        told = ", ".join(f"{peer} {c:+g}" for peer, c in taken.labels.items())
        lines.append(f"taken: {told} from {taken.source} on event {taken.event}")
    return values, "\n".join(lines)


def _budget(amount: float, over: str) -> "Budget":
    """A budget over a number of events ("1000") or seconds ("86400s")."""
    from sigma_mem.ledger.costs import Budget

    number = over.removesuffix("s")
    if not number.isdigit():
        raise InputError(f"got --over {over}; expected a number of events, or seconds as in 86400s")
    return Budget(amount, seconds=float(number)) if number != over else Budget(amount, events=int(number))


def _label(peer: str, text: str, is_score: bool) -> float:
    from sigma_mem.streams.tables import number, signed_label

    found = number(text) if is_score else signed_label(text)
    if found is None:
        raise InputError(
            f"label of {peer!r} is {text!r}; expected true, false or a number in [-1, 1]: {peer}=false for "
            f"wrong, {peer}=0.0 for undecided, or --scores for scores from 0 to 1"
        )
    return found


def _values(decision: "Decision") -> dict[str, Any]:
    """A decision as JSON."""
    by_peer = {key: dict(getattr(decision, key)) for key in _BY_PEER}
    values = {key: getattr(decision, key) for key in _VALUES}
    return {**values, **by_peer, "topics": list(decision.topics)}


def _print_panel(panel: "Panel", task: TaskOptions) -> None:
    enough = f"enough: the rest would change the answer with a chance of {panel.change:.0%}"
    print_table((), (), [enough if panel.next is None else f"ask {panel.next} next"])
    if panel.answers:
        _print(panel.decision, task)


def _print(decision: "Decision", task: TaskOptions) -> None:
    """Print which peer was chosen and why, and how to send feedback."""
    answer = f": {decision.answer!r}" if decision.answer is not None else ""
    chosen = decision.peer or f"nobody: {decision.details['abstained'].get('because', 'not sure enough')}"
    text = decision.details.get("text_log_odds", {})
    rows = []
    for peer, prob in decision.probs.items():
        cells = [f"{prob:.2f}", f"{decision.effective[peer]:.1f}", f"{decision.scores[peer]:+.4f}"]
        rows.append((peer, *cells, *([f"{text[peer]:+.2f}"] if text else [])))
    header = ("peer", "p right here", "evidence", "score φᵀMφ", *(("text log-odds",) if text else ()))
    then = f"sigma-mem feedback --memory {task.memory} {decision.id} {next(iter(decision.probs))}=true …"
    remarks = [f"decision {decision.id} ({decision.read})", f"next: {then}"]
    title = f"{chosen}{answer} (confidence {decision.confidence:.0%})"
    print_table(header, rows, remarks, title=title, bold=decision.peer)
