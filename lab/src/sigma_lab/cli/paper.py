"""``sigma-mem paper``: every table and figure of the paper, from streams, by one command."""

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from sigma_lab.cli.bench_options import CenterRun, numbers_of, show_table
from sigma_lab.cli.train import SteeringOptions, train_center
from sigma_mem.cli.options import Json, grouped_options, names_of
from sigma_mem.cli.output import print_json, print_table, progress_bar
from sigma_mem.errors import InputError
from sigma_mem.extras import require

if TYPE_CHECKING:
    from sigma_lab.bench.paper import CenterRows, PaperPlay
    from sigma_lab.bench.scores import Scores
    from sigma_lab.bench.table import Table
    from sigma_mem.streams import Stream

Show = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class PaperOptions:
    """What is played and judged: each field is an option."""

    peers: Annotated[
        str | None, typer.Option(help="Peers in the paper's order, separated by commas; all by default.")
    ] = None
    trained: Annotated[int, typer.Option(help="How many of them, from the first, are the paper's three.")] = 3
    ratios: Annotated[str, typer.Option(help="Attack ratios, separated by commas.")] = "0,0.5,0.7,0.9"
    partner: Annotated[
        Literal["random", "weakest", "last"], typer.Option(help="The strong peer's partner in the swap.")
    ] = "random"
    shares: Annotated[str, typer.Option(help="Shares of labelled events of Figure 3.")] = (
        "0.05,0.1,0.25,0.5,1"
    )
    masks: Annotated[int, typer.Option(min=1, help="Random masks of Figure 3.")] = 3
    seed: Annotated[int, typer.Option(help="The first seed: of orders, attack, masks and training.")] = 0
    seeds: Annotated[int, typer.Option(min=1, help="How many orders, attacks and masks are played.")] = 1
    warm: Annotated[
        Path | None, typer.Option(help="A stream that every memory learns from first; empty by default.")
    ] = None
    ood_memory: Annotated[
        Literal["one", "each"], typer.Option(help="One memory for all outside benchmarks, or one for each.")
    ] = "one"
    encoder: Annotated[
        str, typer.Option(help="Of φ that is trained: center (its hidden states), static or hashed.")
    ] = "center"
    limit: Annotated[int | None, typer.Option(min=1, help="At most this many events of every stream.")] = None
    judge: Annotated[
        int | None, typer.Option(min=1, help="At most this many events of a table that a center judges.")
    ] = None
    judge_more: Annotated[
        int | None,
        typer.Option(min=1, help="The same for Table 2 and Figure 3, which judge an event many times."),
    ] = None
    named: Annotated[
        bool,
        typer.Option("--named/--no-named", help="Table 1 also with a judge that sees which peer answered."),
    ] = True
    words: Annotated[
        bool,
        typer.Option("--words", help="Also a judge that reads the memory's record in words, as Table 1."),
    ] = False
    verdicts: Annotated[
        str | None,
        typer.Option(help="A model of the streams, kept out of the pools: its verdicts as evidence."),
    ] = None
    figure_3: Annotated[
        str | None,
        typer.Option("--figure-3", help="Centers of Figure 3, separated by commas; all by default."),
    ] = None
    cache: Annotated[Path | None, typer.Option(help="Folder for states and features.")] = None


Files = Annotated[list[Path] | None, typer.Option(help="Stream; several are played as one.")]


app = typer.Typer(add_completion=False)


@app.command()
@grouped_options
def paper(
    out: Annotated[Path, typer.Option(help="Folder for tables, figures, checkpoints and judgements.")],
    train: Files = None,
    cf: Files = None,
    ood: Files = None,
    center: Annotated[
        list[str] | None, typer.Option(help="smollm2, a folder or a hub name; trained on --train.")
    ] = None,
    steering: Annotated[
        list[Path] | None,
        typer.Option(help="A checkpoint of  sigma-mem train steering, instead of training."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only count: prompts, tokens, hours and disk of every center.")
    ] = False,
    as_json: Json = False,
    *,
    options: PaperOptions,
    learning: SteeringOptions,
    run: CenterRun,
) -> None:
    """Every table and figure of the paper from streams: attack, more peers, outside domains, mechanisms.

    Run it again after an interruption: nothing is trained or judged twice.
    """
    from sigma_lab.bench.center import check_room_for_words
    from sigma_lab.bench.paper import PaperPlay, open_streams, paper_report
    from sigma_lab.bench.scores import Scores
    from sigma_mem.streams import load_stream

    started = time.monotonic()
    if center and not train:
        raise InputError("got --center without --train; give the stream to train on, or --steering CKPT")
    if options.words and center:
        check_room_for_words(learning.answer_tokens)
    if center or steering:
        _check_extras(figures=bool(ood))
    files = {"train": train or [], "cf": cf or [], "ood": ood or []}
    streams = open_streams(
        *files.values(),
        peers=names_of(options.peers),
        trained=options.trained,
        limit=options.limit,
        judge=options.verdicts,
    )
    warm = None if options.warm is None else load_stream(options.warm)
    questions = streams.questions + ([] if warm is None else [event.question for event in warm])
    if not dry_run:
        out.mkdir(parents=True, exist_ok=True)
    kept = Scores(None if dry_run else out / "scores.bin")
    with progress_bar() as show:
        play = PaperPlay(
            streams,
            ratios=numbers_of(options.ratios, "--ratios"),
            shares=numbers_of(options.shares, "--shares"),
            masks=options.masks,
            seeds=range(options.seed, options.seed + options.seeds),
            judge=options.judge,
            judge_more=options.judge_more,
            partner=options.partner,
            warm=warm,
            per_benchmark=options.ood_memory == "each",
            words=options.words,
            progress=show,
        )
        paper_run = _PaperRun(options, learning, run, show)
        if dry_run:
            show_table(paper_run.planned(play, center or [], steering or []), as_json)
            return
        checkpoints: list[tuple[str | None, Path]] = [(None, file) for file in steering or []]
        if center and streams.train is not None:
            whole = play.ordered(streams.train, options.seed)
            checkpoints += [(name, paper_run.trained(whole, name, out / "steering")) for name in center]
        rows = [paper_run.played(play, name, file, questions, kept) for name, file in checkpoints]
        about = {
            "streams": {
                name: _about_stream(stream, files[name])
                for name in files
                if (stream := getattr(streams, name)) is not None
            },
            "peers": list(streams.peers),
            "centers": {
                row.name: _about_center(file) for row, (_, file) in zip(rows, checkpoints, strict=True)
            },
            "options": _plain(options),
            "training": _plain(learning),
            "center options": _plain(run),
            "prompts judged in this run": kept.asked,
            "prompts known": len(kept),
            "seconds": round(time.monotonic() - started, 1),
        }
        report = paper_report(play, rows, out, about)
    if as_json:
        print_json(report.values())
        return
    for table in report.tables:
        typer.echo(table.title)
        print_table(table.header, table.texts(), [*table.notes, ""])
    for line in [*(f"left out: {what}" for what in report.missing), *map(str, report.figures)]:
        typer.echo(line)
    typer.echo(f"{out / 'paper.md'}, paper.json: {about['seconds']:.0f} seconds")


@dataclass(frozen=True, slots=True)
class _PaperRun:
    """The options of a run, and what is done with each of its centers."""

    options: PaperOptions
    learning: SteeringOptions
    run: CenterRun
    show: Show

    def in_figure(self, name: str) -> bool:
        """Whether Figure 3 has a panel of this center."""
        wanted = names_of(self.options.figure_3)
        return wanted is None or name in wanted

    def planned(self, play: "PaperPlay", centers: list[str], checkpoints: list[Path]) -> "Table":
        """Load every center, count what it would judge, and time a few prompts; nothing is written."""
        from sigma_lab.bench.paper.plan import center_plan, plan_table
        from sigma_lab.train.run import RunSettings
        from sigma_mem.center import Center
        from sigma_mem.center.project import Steering

        if not (centers or checkpoints):
            raise InputError("got --dry-run without a center; give --center NAME or --steering CKPT")
        learning, settings = self.learning, RunSettings()
        steps = learning.steps + learning.margin_steps
        gradients = learning.rows * (learning.steps + 3 * learning.margin_steps)
        checks = settings.check_rows * steps // settings.check_every
        models = [(name, gradients + checks // 3) for name in centers]
        models += [(Steering.load(file).info.model, 0) for file in checkpoints]
        where = {name: value for name, value in self.run.where.items() if name != "cache_gb"}
        plans = [
            center_plan(
                Center.load(name, prompt=learning.judge_prompt(), **where),
                play,
                named=self.options.named,
                figure=self.in_figure(name),
                training=training,
                cache_gb=self.run.cache_gb,
            )
            for name, training in models
        ]
        return plan_table(plans, self.run.cache_gb)

    def trained(self, stream: "Stream", name: str, folder: Path) -> Path:
        """The checkpoint of a center, trained now unless the same training was done before."""
        options, learning = self.options, self.learning
        about = repr((name, stream.sha256, asdict(learning), options.encoder, options.seed, self.run.dtype))
        slug = "".join(c if c.isalnum() or c in ".-" else "-" for c in name)
        file = folder / f"{slug}-{hashlib.sha256(about.encode()).hexdigest()[:8]}.safetensors"
        folder.mkdir(parents=True, exist_ok=True)
        if not file.exists():
            train_center(
                stream,
                file,
                learning,
                center=name,
                encoder=options.encoder,
                seed=options.seed,
                cache=options.cache,
                show=lambda what, n, of: self.show(f"{name}: {what}", n, of),
                **self.run.where,
            )
        return file

    def played(
        self, play: "PaperPlay", name: str | None, file: Path, questions: list[str], scores: "Scores"
    ) -> "CenterRows":
        """Everything of one center; it is unloaded before the next one comes."""
        from sigma_lab.bench.center import open_bench_center
        from sigma_mem.center.project import Steering
        from sigma_mem.center.prompt import JudgePrompt

        opened = partial(
            open_bench_center,
            questions,
            cache=self.options.cache,
            options=self.run.where,
            weights=self.run.weights,
            scores=scores,
            progress=self.show,
        )
        bench = opened(center=name, steering=file)
        rows = play.center(bench.name, bench, figure=self.in_figure(bench.name))
        info = Steering.load(file).info
        prompt = JudgePrompt(**info.details["prompt"])
        if self.options.named and play.streams.cf is not None and not prompt.names_peer:
            bench = opened(center=name or info.model, prompt=replace(prompt, names_peer=True))
            rows = play.with_named(rows, bench)
        return rows


def _plain(options: Any) -> dict[str, Any]:
    return {name: str(v) if isinstance(v, Path) else v for name, v in asdict(options).items()}


def _about_stream(stream: "Stream", files: list[Path]) -> dict[str, Any]:
    """Name, content and grading of a stream, as far as it is known."""
    from sigma_lab.collect.graded import how_graded

    notes = {file.name: how_graded(file) for file in files}
    grading = {
        name: json.loads(note.read_text("utf-8")) if note.is_file() else "unknown: no " + note.name
        for name, note in notes.items()
    }
    return {"name": stream.name, "events": len(stream), "sha256": stream.sha256, "grading": grading}


def _about_center(file: Path) -> dict[str, Any]:
    """The model, and how far training brought the held-out loss from that of the base judge."""
    from sigma_mem.center.project import Steering

    info = Steering.load(file).info
    losses = [check["held_loss"] for check in info.details["held_out"]]
    kept = info.details.get("kept")
    mine = losses[-1 if kept is None else kept]
    found = {"checkpoint": file.name, "model": info.model, "encoder": info.encoder}
    worse = {"warning": "worse than the base judge on held-out events"} if mine > losses[0] else {}
    return {**found, "held-out loss of the base judge": losses[0], "of the checkpoint": mine, **worse}


def _check_extras(*, figures: bool) -> None:
    """Miss an extra now rather than after hours of training and judging."""
    from importlib import import_module

    import_module("sigma_mem.center")
    if figures:
        require("matplotlib.figure", extra="plot", purpose="drawing figures")
