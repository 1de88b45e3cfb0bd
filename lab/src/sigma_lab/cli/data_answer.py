"""``sigma-mem data answer``: ask peers the questions of a file, and record what they answer."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sigma_mem.cli.options import Json, check_folder, named_values
from sigma_mem.cli.output import print_json, print_table, progress_bar
from sigma_mem.errors import InputError, SigmaMemError

if TYPE_CHECKING:
    from sigma_lab.collect.answer_file import PeerTotals
    from sigma_lab.collect.answers import PeerRun
    from sigma_lab.collect.peers import PeerSettings


def add_answer(app: typer.Typer) -> None:
    """Add the command to the group ``data``."""
    app.command()(answer)


def answer(
    questions: Annotated[Path, typer.Argument(help="JSON lines with id and prompt, plain or compressed.")],
    out: Annotated[Path, typer.Option(help="Where the answers go: a .jsonl or .jsonl.gz file.")],
    peer: Annotated[
        list[str] | None,
        typer.Option(help="NAME=openai:BASE_URL#MODEL."),
    ] = None,
    peers: Annotated[Path | None, typer.Option(help="A TOML file that defines peers.")] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="OPTION=VALUE for all peers, or NAME.OPTION=VALUE for one (see the page)."
        ),
    ] = None,
    key: Annotated[
        list[str] | None, typer.Option(help="NAME=VARIABLE: the environment variable with a peer's key.")
    ] = None,
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
    from sigma_lab.collect.answer_file import check_target, read_answers, totals, write_answers
    from sigma_lab.collect.answers import answer_all, pair_up
    from sigma_lab.collect.cache import AnswerCache
    from sigma_lab.collect.task_prompts import read_task_prompts

    asked = _peers(
        named_values(peer or (), "--peer"),
        peers,
        named_values(set_ or (), "--set"),
        named_values(key or (), "--key"),
    )
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
        sums = totals(pairs, replies)
    if as_json:
        print_json({"out": str(out), "lines": written, "peers": _as_json(sums, runs)})
    else:
        _print(out, written, sums, runs)
    _refuse_given_up(runs)


def _cache_beside(out: Path) -> Path:
    return out.with_name(f"{out.name.removesuffix('.gz').removesuffix('.jsonl')}.cache.jsonl")


def _peers(
    specs: dict[str, str], file: Path | None, options: dict[str, str], keys: dict[str, str]
) -> "list[PeerSettings]":
    """The peers of the command line and of a file; settings of one peer override those of all."""
    from sigma_lab.collect.peers import peer_from, read_peers, toml_value

    shared = {name: toml_value(value) for name, value in options.items() if "." not in name}
    tables = {} if file is None else read_peers(file, shared)
    if twice := [name for name in specs if name in tables]:
        raise InputError(f"got peer {twice[0]!r} by --peer and in {file}; expected it once")
    tables |= {name: {**shared, "spec": spec} for name, spec in specs.items()}
    if not tables:
        raise InputError("got no peer; expected --peer NAME=SPEC or --peers FILE")
    own = {what: value for what, value in options.items() if "." in what}
    for what, value in [*own.items(), *((f"{name}.key_env", env) for name, env in keys.items())]:
        name, _, option = what.rpartition(".")
        if name not in tables:
            known = ", ".join(tables)
            raise InputError(f"got {what}={value}; expected PEER.OPTION=VALUE of a peer among {known}")
        tables[name][option] = toml_value(value)
    return [peer_from(name, table.pop("spec"), table) for name, table in tables.items()]


def _as_json(sums: "Sequence[PeerTotals]", runs: "Sequence[PeerRun]") -> list[dict[str, Any]]:
    return [
        {**asdict(one), "asked": run.asked, "given_up": run.given_up}
        for one, run in zip(sums, runs, strict=True)
    ]


def _print(out: Path, written: int, sums: "Sequence[PeerTotals]", runs: "Sequence[PeerRun]") -> None:
    words = ("questions", "answered", "failed", "asked now", "tokens in", "tokens out", "cost", "s each")
    header = ("peer", *words)
    rows = [
        (
            *(str(n) for n in (one.peer, one.questions, one.answered, one.failed, run.asked)),
            *(str(n) for n in (one.tokens_in, one.tokens_out)),
            "–" if one.cost is None else f"{one.cost:.4f}",
            f"{one.seconds / max(one.answered + one.failed, 1):.2f}",
        )
        for one, run in zip(sums, runs, strict=True)
    ]
    remarks = [f"{written} lines in {out}"]
    remarks += [f"{run.peer.name}: the last failure was: {run.last_error}" for run in runs if run.last_error]
    print_table(header, rows, remarks)


def _refuse_given_up(runs: "Sequence[PeerRun]") -> None:
    left = [run for run in runs if run.given_up]
    if left:
        names = ", ".join(run.peer.name for run in left)
        raise SigmaMemError(
            f"gave up on {names} after {left[0].down} failures in a row (the last: {left[0].last_error}); "
            "the rest was left unasked: run the command again with --retry-failed when it is back"
        )
