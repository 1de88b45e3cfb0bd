"""``sigma-mem data``: from a benchmark's release files to a stream, by way of the peers' answers."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from sigma_mem.cli.options import Json, check_folder, named_values, names_of
from sigma_mem.cli.output import print_json, print_table, progress_bar
from sigma_mem.errors import InputError, SigmaMemError

if TYPE_CHECKING:
    from sigma_lab.collect.answers import PeerTotals
    from sigma_lab.collect.peers import PeerSettings

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="Questions of the paper's datasets, the peers' answers, grades.",
)

Raw = Annotated[
    Path | None, typer.Option(help="Folder of release files, one folder per dataset.", show_default="the hub")
]
Workers = Annotated[
    int | None, typer.Option(min=1, help="Programs that run at a time; one per core by default.")
]


@app.command()
def questions(
    datasets: Annotated[
        list[str], typer.Argument(help="Datasets, or one of paper-train, paper-cf, paper-ood.")
    ],
    out: Annotated[Path, typer.Option(help="File to write: .jsonl or .jsonl.gz.")],
    raw: Raw = None,
    seed: Annotated[int, typer.Option(help="Of a recipe's draws and order.")] = 0,
    size: Annotated[
        list[str] | None,
        typer.Option(help="DATASET=N or DATASET/KIND=N: draw that many; all by default. Repeatable."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Build questions: what peers see, what the center sees, and what is right."""
    from sigma_lab.collect.question_sets import build_questions
    from sigma_lab.collect.questions import write_questions

    check_folder("--out", out)
    with progress_bar() as show:
        built = build_questions(datasets, raw, seed, show, _sizes(size or []))
    write_questions(built.questions, out)
    counts = Counter((question.dataset, question.domain, question.split) for question in built.questions)
    if as_json:
        sizes = {dataset: n for (dataset, _, _), n in counts.items()}
        print_json(
            {"out": str(out), "questions": len(built.questions), "datasets": sizes, "missing": built.missing}
        )
        return
    rows = [(*key, f"{n:,}") for key, n in sorted(counts.items())]
    remarks = [f"{out}: {len(built.questions):,} questions"]
    if built.missing:
        remarks.append(f"shown without {', '.join(built.missing)}: not at hand")
    print_table(["dataset", "domain", "split", "questions"], rows, remarks)


@app.command()
def answer(
    questions: Annotated[Path, typer.Argument(help="JSON lines with id and prompt, plain or compressed.")],
    out: Annotated[Path, typer.Option(help="Where the answers go: a .jsonl or .jsonl.gz file.")],
    peer: Annotated[
        list[str] | None,
        typer.Option(help="NAME=openai:BASE_URL#MODEL."),
    ] = None,
    peers: Annotated[Path | None, typer.Option(help="A TOML file of peers and their options.")] = None,
    cache: Annotated[
        Path | None, typer.Option(help="Where every reply is kept as it arrives; by default next to --out.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first questions of the file.")] = None,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Ask again what failed.")] = False,
    as_json: Json = False,
) -> None:
    """Ask every peer every question once, and record the answers.

    Run it again after an interruption: what is recorded is not asked again.
    """
    from sigma_lab.collect.answers import (
        AnswerCache,
        answer_all,
        check_target,
        pair_up,
        read_answers,
        write_answers,
    )
    from sigma_lab.collect.questions import read_task_prompts

    asked = _peers(named_values(peer or (), "--peer"), peers)
    check_folder("--out", out)
    check_target(out)
    pairs = pair_up(read_task_prompts(questions, limit), asked)
    before = read_answers(out)
    written = 0
    with AnswerCache(cache or _cache_beside(out)) as replies, progress_bar() as show:
        replies.adopt(before)

        def save() -> None:
            nonlocal written
            written = write_answers(out, pairs, replies, before)

        runs = answer_all(pairs, replies, retry_failed=retry_failed, progress=show, save=save)
        sums = [run.totals(replies) for run in runs]
    if as_json:
        print_json({"out": str(out), "lines": written, "peers": [asdict(one) for one in sums]})
    else:
        remarks = [f"{written} lines in {out}"]
        remarks += [f"{r.peer.name}: the last failure was: {r.last_error}" for r in runs if r.last_error]
        _print(sums, remarks)
    if left := [run for run in runs if run.given_up]:
        names = ", ".join(run.peer.name for run in left)
        raise SigmaMemError(
            f"gave up on {names} after {left[0].down} failures in a row (the last: {left[0].last_error}); "
            "the rest was left unasked: run the command again with --retry-failed when it is back"
        )


@app.command()
def grade(
    answers: Annotated[
        Path, typer.Argument(help="Answers of the peers, as sigma-mem data answer writes them.")
    ],
    questions: Annotated[Path, typer.Option(help="The file of questions that were asked.")],
    out: Annotated[Path, typer.Option(help="Stream to write: .jsonl, .jsonl.gz or .jsonl.zst.")],
    match: Annotated[
        Literal["exact", "contained"],
        typer.Option(help="A span is right if it equals an accepted answer, or also if it contains one."),
    ] = "exact",
    workers: Workers = None,
    as_json: Json = False,
) -> None:
    """Grade answers and write them as a stream. Programs run in a sandbox, or not at all."""
    from sigma_lab.collect.graded import grade_answers, read_responses
    from sigma_lab.collect.questions import read_questions
    from sigma_mem.streams import save_stream

    check_folder("--out", out)
    name = out.name.split(".")[0]
    with progress_bar() as show:
        graded = grade_answers(
            read_questions(questions),
            read_responses(answers),
            name=name,
            match=match,
            workers=workers,
            progress=show,
        )
    save_stream(graded.stream, out)
    graded.save_how(out)
    names = ("right", "wrong", "unread", "failed")
    rows = [(*key, [count[name] for name in names]) for key, count in sorted(graded.counts.items())]
    if as_json:
        keys = ("dataset", "peer", *names)
        grades = [dict(zip(keys, (*who, *counts), strict=True)) for *who, counts in rows]
        values = {"out": str(out), "events": len(graded.stream), "sha256": graded.stream.sha256}
        print_json({**values, "how": graded.how, "grades": grades})
        return
    shown = [(*who, *map(str, counts), _share(counts[0], counts[0] + counts[1])) for *who, counts in rows]
    remarks = [f"{out}: {len(graded.stream):,} events, {len(graded.stream.peers)} peers"]
    remarks += [graded.how["programs"]["bound"]] if graded.how["programs"] else []
    print_table(["dataset", "peer", *names, "accuracy"], shown, remarks)


@app.command()
def select(
    stream: Annotated[Path, typer.Argument(help="A recorded stream: JSON lines, plain, .gz or .zst.")],
    domains: Annotated[str, typer.Option(help="Keep these domains, separated by commas.")],
    out: Annotated[Path, typer.Option(help="Stream to write: .jsonl, .jsonl.gz or .jsonl.zst.")],
    as_datasets: Annotated[
        bool, typer.Option("--as-datasets", help="Let every domain be a dataset, the unit of the attack.")
    ] = False,
) -> None:
    """Write the events of some domains as a stream: parts to train on, to attack and to generalise to."""
    from sigma_mem.streams import load_stream, save_stream

    check_folder("--out", out)
    part = load_stream(stream).select(domains=names_of(domains))
    if as_datasets:
        part = replace(part, events=tuple(replace(event, dataset=event.domain) for event in part))
    save_stream(part, out)
    typer.echo(f"{out}: {len(part):,} events, {len(part.peers)} peers")


@app.command()
def check(
    datasets: Annotated[list[str] | None, typer.Argument(help="All that are at hand by default.")] = None,
    raw: Raw = None,
    workers: Workers = None,
    as_json: Json = False,
) -> None:
    """Grade the reference answers and solutions of datasets, and broken forms of them."""
    from sigma_lab.collect.question_sets import build_questions
    from sigma_lab.collect.reference_check import check_references
    from sigma_lab.collect.releases import RELEASES

    at_hand = [name for name, release in RELEASES.items() if raw is None or release.found(raw)]
    built = build_questions(datasets or at_hand, raw)
    with progress_bar() as show:
        rows = check_references(built.questions, workers, show)
    if as_json:
        print_json({"datasets": [asdict(row) for row in rows]})
        return
    cells = [
        (row.dataset, f"{row.questions:,}",
         f"{row.graded:,}", f"{row.right:,}", _share(row.right, row.graded),
         f"{row.broken:,}", f"{row.caught:,}", _share(row.caught, row.broken))
        for row in rows
    ]  # fmt: skip
    absent = [] if datasets else [name for name in RELEASES if name not in at_hand]
    remarks = [f"{place}: {why}" for row in rows for place, why in row.misgraded]
    remarks += [f"shown without {', '.join(absent)}: not at hand"] if absent else []
    print_table(["dataset", "questions", "references", "right", "", "broken", "wrong", ""], cells, remarks)


def _sizes(texts: list[str]) -> dict[str, int]:
    found = {}
    for text in texts:
        name, _, number = text.partition("=")
        if not number.isdecimal():
            raise InputError(f"got --size {text!r}; expected DATASET=N, for example --size piqa=500")
        found[name] = int(number)
    return found


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.2%}" if whole else "–"


def _cache_beside(out: Path) -> Path:
    return out.with_name(f"{out.name.removesuffix('.gz').removesuffix('.jsonl')}.cache.db")


def _peers(specs: dict[str, str], file: Path | None) -> "list[PeerSettings]":
    """The peers of the command line, with default options, and those of a file."""
    from sigma_lab.collect.peers import peer_from, read_peers

    tables = {} if file is None else read_peers(file)
    if twice := [name for name in specs if name in tables]:
        raise InputError(f"got peer {twice[0]!r} by --peer and in {file}; expected it once")
    tables |= {name: {"spec": spec} for name, spec in specs.items()}
    if not tables:
        raise InputError("got no peer; expected --peer NAME=SPEC or --peers FILE")
    return [peer_from(name, table.pop("spec"), table) for name, table in tables.items()]


def _print(sums: "Sequence[PeerTotals]", remarks: Sequence[str]) -> None:
    words = ("questions", "answered", "failed", "asked now", "tokens in", "tokens out", "cost", "s each")
    rows = [
        (
            *map(str, (x.peer, x.questions, x.answered, x.failed, x.asked, x.tokens_in, x.tokens_out)),
            "–" if x.cost is None else f"{x.cost:.4f}",
            f"{x.seconds / max(x.answered + x.failed, 1):.2f}",
        )
        for x in sums
    ]
    print_table(("peer", *words), rows, remarks)
