"""What every ``sigma-mem bench`` experiment on a stream takes, and how it is run and printed."""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import partial, wraps
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from sigma_mem.cli.options import Json, grouped_options, names_of
from sigma_mem.cli.output import print_json, print_table, progress_bar
from sigma_mem.errors import InputError

if TYPE_CHECKING:
    from sigma_lab.bench.center import BenchCenter, PosteriorWeights
    from sigma_lab.bench.league import Progress, Setup
    from sigma_lab.bench.table import Table
    from sigma_mem.events import FloatArray
    from sigma_mem.streams import Stream

StreamFile = Annotated[
    list[Path], typer.Argument(help="Recorded streams: JSON lines, plain, .gz or .zst; several are one.")
]
Limit = Annotated[int | None, typer.Option("--limit", "--events", help="At most this many events.")]
Ratios = Annotated[str, typer.Option(help="Attack ratios, separated by commas.")]
Seeds = Annotated[int, typer.Option(min=1, help="How many seeds: draws, masks or orders, from --seed on.")]


def numbers_of(text: str, what: str) -> list[float]:
    """Numbers separated by commas."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError as error:
        raise InputError(f"got {what} {text!r}; expected numbers separated by commas, like 0,0.5") from error


def show_table(table: Table, as_json: bool, files: Sequence[Path] = ()) -> None:
    """Print one JSON object, or a table with its remarks and the files that were written."""
    if as_json:
        print_json(table.values)
    else:
        print_table(table.header, table.rows, [*table.remarks, *map(str, files)])


@dataclass(frozen=True, slots=True)
class CenterPlace:
    """Where a center runs: each field is an option."""

    dtype: Annotated[str, typer.Option(help="Of the center: auto, float32, float16 or bfloat16.")] = "auto"
    device: Annotated[str | None, typer.Option(help="Of the center, such as cpu or cuda:0.")] = None
    device_map: Annotated[
        str | None, typer.Option(help="'auto' spreads the center over several devices.")
    ] = None
    trust_remote_code: Annotated[
        bool, typer.Option("--trust-remote-code", help="Run code that a model's repository brings.")
    ] = False
    cache_gb: Annotated[
        float, typer.Option(min=0.0, help="Gigabytes of the center's states to keep on disk; 0 for none.")
    ] = 8.0

    @property
    def where(self) -> dict[str, Any]:
        """What ``Center.load`` takes, and the size of its cache."""
        return {f.name: getattr(self, f.name) for f in fields(CenterPlace)}


@dataclass(frozen=True, slots=True)
class CenterRun(CenterPlace):
    """The same, and what the paper leaves open of its posterior."""

    w_u: Annotated[float, typer.Option(help="Weight of the utilities in the posterior.")] = 1.0
    w_g: Annotated[float, typer.Option(help="Weight of G in the posterior.")] = 1.0
    epsilon: Annotated[float, typer.Option(help="ε of the normalised utility.")] = 1e-8
    gamma_g: Annotated[float, typer.Option(help="Decay of G.")] = 0.995
    eta_g: Annotated[float, typer.Option(help="Step of G.")] = 0.005

    @property
    def weights(self) -> PosteriorWeights:
        """Of the posterior and of G."""
        from sigma_lab.bench.center import PosteriorWeights

        return PosteriorWeights(self.w_u, self.w_g, self.epsilon, self.gamma_g, self.eta_g)


@dataclass(frozen=True, slots=True)
class CenterChoice:
    """Which center judges, steered by what, and how many events: each field is an option."""

    center: Annotated[
        str | None, typer.Option(help="Also a center's rows: smollm2, a folder or a hub name.")
    ] = None
    steering: Annotated[Path | None, typer.Option(help="A checkpoint of  sigma-mem train steering.")] = None
    judge: Annotated[
        int | None, typer.Option(min=1, help="At most this many events that the center judges.")
    ] = None
    judge_after: Annotated[
        int, typer.Option(min=0, help="The center judges only events from this place on.")
    ] = 0

    @property
    def wanted(self) -> bool:
        """Whether a center takes part; a checkpoint brings the name of its own."""
        return self.center is not None or self.steering is not None

    def check(self, run: CenterRun) -> None:
        """Complain before the long work begins: options without a center, or a center without its extra."""
        if self.wanted:
            import_module("sigma_mem.center")  # one clear error without the extra
            if self.steering is not None and not self.steering.is_file():
                raise InputError(
                    f"got --steering {self.steering}, but there is no such file; expected a checkpoint of "
                    " sigma-mem train steering"
                )
        elif self != CenterChoice() or run != CenterRun():
            raise InputError("got options of a center without one; give --center NAME or --steering CKPT")

    def opened(
        self, run: CenterRun, streams: Sequence[Stream], seed: int, progress: Progress
    ) -> BenchCenter | None:
        """The center for events of these streams; None if none is wanted."""
        if not self.wanted:
            return None
        from sigma_lab.bench.center import open_bench_center

        opened = open_bench_center(
            [event.question for stream in streams for event in stream],
            center=self.center,
            steering=self.steering,
            options=run.where,
            weights=run.weights,
            progress=progress,
        )
        return replace(opened, after=self.judge_after, limit=self.judge, seed=seed)


@dataclass(frozen=True, slots=True)
class WarmUp:
    """What mechanisms learn from first, and which others take part: each field is an option."""

    warm: Annotated[Path | None, typer.Option(help="A stream of the same peers to learn from first.")] = None
    warm_share: Annotated[
        float, typer.Option(help="Leading share of the stream to learn from first, not in the table.")
    ] = 0.0
    warm_beta: Annotated[
        Path | None, typer.Option(help="A stream that Beta B1 alone learns from first, as in the paper.")
    ] = None
    rivals: Annotated[
        bool, typer.Option("--rivals", help="Also ParetoBandit and MABWiser (extra 'rivals'); slower.")
    ] = False


@dataclass(frozen=True, slots=True)
class Experiment:
    """What an experiment works on: a stream in its order with φ of its questions, and what goes with it."""

    stream: Stream
    phis: FloatArray
    setup: Setup
    center: BenchCenter | None
    shuffled: bool

    def seeds(self, count: int) -> range:
        """So many seeds, from --seed on."""
        return range(self.setup.seed, self.setup.seed + count)


Work = Callable[[Experiment], "Table"]
"""What a command does with its experiment."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Which peers, in which order, under which φ, and how to print the result: each field is an option."""

    peers: Annotated[
        str | None, typer.Option("--peers", help="Peers, separated by commas; all by default.")
    ] = None
    pool: Annotated[
        int | None, typer.Option(min=1, help="A pool of this many of the peers, drawn by --pool-seed.")
    ] = None
    pool_seed: Annotated[int, typer.Option(help="Of the pool that --pool draws.")] = 0
    order: Annotated[
        Literal["shuffled", "recorded"],
        typer.Option(help="Shuffle the events by the seed, or keep their order."),
    ] = "shuffled"
    seed: Annotated[int, typer.Option(help="Of the order, the attack, the clusters and the rivals.")] = 0
    encoder: Annotated[
        str | None,
        typer.Option(
            "--encoder",
            help="static, hashed, minilm, sentence, or center: φ of the steering.",
            show_default="center with --steering, else static",
        ),
    ] = None
    topics: Annotated[
        Literal["domain", "shuffled"] | None,
        typer.Option(help="Tell the memory each event's domain as its topic, or that of another event."),
    ] = None
    processes: Annotated[
        int, typer.Option(min=1, help="Ratios, masks and draws that are played at a time.")
    ] = 1
    report: Annotated[Path | None, typer.Option(help="Folder for Markdown and CSV.")] = None
    as_json: Json = False

    def show(self, table: Table) -> None:
        """Write the report, if one is wanted, and print the table."""
        show_table(table, self.as_json, [] if self.report is None else table.write(self.report))

    @contextmanager
    def experiment(
        self,
        files: Sequence[Path],
        *,
        limit: int | None,
        first: WarmUp | None = None,
        center: CenterChoice | None = None,
        run: CenterRun | None = None,
    ) -> Iterator[Experiment]:
        """Load, order and encode streams, set the warm-up apart, open the center, and show progress."""
        from sigma_lab.bench.league import Setup
        from sigma_lab.bench.rivals import RIVALS
        from sigma_mem.encode import open_encoder

        choice, of_center, warm_up = center or CenterChoice(), run or CenterRun(), first or WarmUp()
        choice.check(of_center)
        encoder = None if self._by_center(choice) else open_encoder(self.encoder or "static")
        with progress_bar() as progress:
            stream, before = self._with_warm_up(files, limit, warm_up)
            streams = [stream] if before is None else [stream, before]
            opened = choice.opened(of_center, streams, self.seed, progress)

            def phis(one: Stream) -> FloatArray:
                if encoder is not None:
                    return encoder.encode([event.question for event in one])
                assert opened is not None  # _by_center decides it
                return opened.phis(one)

            setup = Setup(
                rivals=tuple(RIVALS) if warm_up.rivals else (),
                warm=None if before is None else (before, phis(before)),
                warm_b1=None if warm_up.warm_beta is None else self.load([warm_up.warm_beta]),
                seed=self.seed,
                processes=self.processes,
                progress=progress,
            )
            yield Experiment(stream, phis(stream), setup, opened, self.order == "shuffled")

    def _with_warm_up(
        self, files: Sequence[Path], limit: int | None, first: WarmUp
    ) -> tuple[Stream, Stream | None]:
        """The stream, and what is learned from before it."""
        stream = self.load(files, limit=limit)
        before = None if first.warm is None else self.load([first.warm])
        if not 0.0 <= first.warm_share < 1.0:
            raise InputError(f"got --warm-share {first.warm_share}; expected a number in [0, 1), such as 0.5")
        if first.warm_share > 0.0:
            if before is not None:
                raise InputError("got --warm and --warm-share; expected one of them")
            cut = int(first.warm_share * len(stream))
            before = stream.select(limit=cut)
            stream = replace(stream, events=stream.events[cut:])
        return stream, before

    def _by_center(self, choice: CenterChoice) -> bool:
        """Whether φ is that of the center's steering, so that m-route and m-vote are the center's own."""
        if self.encoder == "center" and choice.steering is None:
            raise InputError("got --encoder center without --steering; its φ comes with the checkpoint")
        return self.encoder == "center" or (self.encoder is None and choice.steering is not None)

    def load(self, files: Sequence[Path], *, limit: int | None = None) -> Stream:
        """Load streams as one, in the given order."""
        from sigma_lab.streams import join_streams, with_topics
        from sigma_mem.streams import load_stream

        seed = self.seed if self.order == "shuffled" else None
        whole = join_streams([load_stream(file) for file in files])
        chosen = self._drawn(names_of(self.peers) or whole.peers)
        stream = whole.select(peers=chosen, seed=seed, limit=limit)
        if not len(stream):
            named = ", ".join(map(str, files))
            raise InputError(f"{named} has no event left; expected at least one: check --peers and --limit")
        return stream if self.topics is None else with_topics(stream, self.topics, self.seed)

    def _drawn(self, peers: Sequence[str]) -> Sequence[str]:
        """All of these peers, or the pool drawn from them; their order does not matter."""
        if self.pool is None:
            return peers
        if self.pool > len(peers):
            raise InputError(f"got --pool {self.pool}; expected at most {len(peers)}, the number of peers")
        return random.Random(self.pool_seed).sample(sorted(peers), self.pool)


def experiment_command(
    *groups: type, limit: int | None = None
) -> Callable[[Callable[..., Work]], Callable[..., None]]:
    """Make a command play a stream: its own options, those of a run, and those of every group.

    It is called before the stream is loaded, so that what is wrong with its options is reported first.
    """

    def made(command: Callable[..., Work]) -> Callable[..., None]:
        @wraps(command)
        def shown(stream: list[Path], limit: int | None, options: RunOptions, **given: Any) -> None:
            taken = {name: given.pop(name) for name in parts}
            work = command(**given)
            with options.experiment(stream, limit=limit, **taken) as experiment:
                table = work(experiment)
            options.show(table)

        parts = {_GROUPS[group]: group for group in groups}
        own = inspect.signature(command).parameters.values()
        files, most = _option("stream", StreamFile), _option("limit", Limit, limit)
        others = [_option(name, group) for name, group in {"options": RunOptions, **parts}.items()]
        shown.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in (files, *own, most, *others)]
        )
        return grouped_options(shown)

    return made


def _option(name: str, kind: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=default)


_GROUPS = {WarmUp: "first", CenterChoice: "center", CenterRun: "run"}
warm_command = partial(experiment_command, WarmUp)
judged_command = partial(experiment_command, *_GROUPS)  # a center may judge as well
