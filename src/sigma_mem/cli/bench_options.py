"""What every ``sigma-mem bench`` experiment on a stream takes, and how it is run and printed."""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, is_dataclass, replace
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from sigma_mem.cli.options import Json, names_of
from sigma_mem.cli.output import print_json, print_table, progress_bar
from sigma_mem.errors import InputError

if TYPE_CHECKING:
    from sigma_mem.bench.center import BenchCenter
    from sigma_mem.bench.league import Progress, Setup
    from sigma_mem.bench.table import Table
    from sigma_mem.encode import Encoder
    from sigma_mem.events import FloatArray
    from sigma_mem.streams import Stream

StreamFile = Annotated[Path, typer.Argument(help="A recorded stream: JSON lines, plain, .gz or .zst.")]
Limit = Annotated[int | None, typer.Option(help="At most this many events.")]
Ratios = Annotated[str, typer.Option(help="Attack ratios, separated by commas.")]
Rivals = Annotated[bool, typer.Option("--rivals", help="Also four other libraries (extra 'rivals'); slower.")]
Warm = Annotated[Path | None, typer.Option(help="A stream of the same peers to learn from first.")]
WarmShare = Annotated[
    float, typer.Option(help="Leading share of the stream to learn from first, not in the table.")
]


@dataclass(frozen=True, slots=True)
class CenterChoice:
    """Which center judges, steered by what, how many events, and where: each field is an option."""

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
    ray: Annotated[
        str | None, typer.Option(help="Spread the judging over the Ray cluster at this address.")
    ] = None
    workers: Annotated[int, typer.Option(min=1, help="Centers on the Ray cluster.")] = 2
    dtype: Annotated[str, typer.Option(help="Of the center: auto, float32, float16 or bfloat16.")] = "auto"
    device: Annotated[str | None, typer.Option(help="Of the center, such as cpu or cuda:0.")] = None
    device_map: Annotated[
        str | None, typer.Option(help="'auto' spreads the center over several devices.")
    ] = None

    @property
    def wanted(self) -> bool:
        """Whether a center takes part; a checkpoint brings the name of its own."""
        return self.center is not None or self.steering is not None

    def check(self) -> None:
        """Complain before the long work begins: options without a center, or a center without its extra."""
        if self.wanted:
            import_module("sigma_mem.center")  # one clear error without the extra
            if self.steering is not None and not self.steering.is_file():
                raise InputError(
                    f"got --steering {self.steering}, where there is no file; expected a checkpoint of "
                    " sigma-mem train steering"
                )
        elif self != CenterChoice():
            raise InputError("got options of a center without one; give --center NAME or --steering CKPT")

    @contextmanager
    def opened(
        self, streams: Sequence[Stream], seed: int, progress: Progress
    ) -> Iterator[BenchCenter | None]:
        """The center while the ``with`` lasts, for events of these streams; None where none is wanted."""
        if not self.wanted:
            yield None
            return
        from sigma_mem.bench.center import open_bench_center

        with open_bench_center(
            [event.question for stream in streams for event in stream],
            center=self.center,
            steering=self.steering,
            after=self.judge_after,
            limit=self.judge,
            seed=seed,
            ray=self.ray,
            workers=self.workers,
            options={"dtype": self.dtype, "device": self.device, "device_map": self.device_map},
            progress=progress,
        ) as center:
            yield center


@dataclass(frozen=True, slots=True)
class Experiment:
    """What an experiment works on: a stream in its order with φ of its questions, and what goes with it."""

    stream: Stream
    phis: FloatArray
    setup: Setup
    center: BenchCenter | None


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
    encoder: Annotated[str, typer.Option("--encoder", help="static, hashed, minilm or sentence.")] = "static"
    phi: Annotated[Path | None, typer.Option("--phi", help="A learned φ, made by  sigma-mem train phi.")] = (
        None
    )
    topics: Annotated[
        Literal["domain", "shuffled"] | None,
        typer.Option(help="Tell the memory each event's domain as its topic, or that of another event."),
    ] = None
    report: Annotated[Path | None, typer.Option(help="Folder for Markdown, CSV and figures.")] = None
    as_json: Json = False

    @contextmanager
    def experiment(
        self,
        file: Path,
        *,
        limit: int | None,
        warm: Path | None = None,
        warm_share: float = 0.0,
        rivals: bool = False,
        center: CenterChoice | None = None,
    ) -> Iterator[Experiment]:
        """Load, order and encode a stream, set the warm-up apart, open the center, and show progress."""
        from sigma_mem.bench.league import Setup
        from sigma_mem.bench.rivals import RIVALS

        choice = center or CenterChoice()
        choice.check()
        encoder = self.open_encoder(self.phi)
        with progress_bar() as progress:
            stream, phis = self.load(file, encoder, limit=limit)
            before = None if warm is None else self.load(warm, encoder)
            if not 0.0 <= warm_share < 1.0:
                raise InputError(f"got --warm-share {warm_share}; expected a number in [0, 1), such as 0.5")
            if warm_share > 0.0:
                if before is not None:
                    raise InputError("got --warm and --warm-share; expected one of them")
                cut = int(warm_share * len(stream))
                before = stream.select(limit=cut), phis[:cut]
                stream, phis = replace(stream, events=stream.events[cut:]), phis[cut:]
            streams = [stream] if before is None else [stream, before[0]]
            with choice.opened(streams, self.seed, progress) as opened:
                names = tuple(RIVALS) if rivals else ()
                setup = Setup(rivals=names, warm=before, seed=self.seed, progress=progress)
                yield Experiment(stream, phis, setup, opened)

    def open_encoder(self, learned: Path | None) -> Encoder:
        """The encoder of the name given, or the learned one over it."""
        from sigma_mem.encode import open_encoder
        from sigma_mem.encode.learned import LearnedEncoder

        base = open_encoder(self.encoder)
        return base if learned is None else LearnedEncoder.load(learned, base)

    def load(
        self,
        file: Path,
        encoder: Encoder,
        *,
        peers: str | None = None,
        limit: int | None = None,
        domains: Sequence[str] | None = None,
    ) -> tuple[Stream, FloatArray]:
        """Load a stream in the order asked for, and encode its questions."""
        from sigma_mem.streams import load_stream, with_topics

        seed = self.seed if self.order == "shuffled" else None
        whole = load_stream(file)
        chosen = self._drawn(names_of(peers or self.peers) or whole.peers)
        stream = whole.select(peers=chosen, domains=domains, seed=seed, limit=limit)
        if not len(stream):
            raise InputError(f"{file} has no event left; expected at least one: check --peers and --limit")
        if self.topics is not None:
            stream = with_topics(stream, self.topics, self.seed)
        return stream, encoder.encode([event.question for event in stream])

    def _drawn(self, peers: Sequence[str]) -> Sequence[str]:
        """All of these peers, or the pool drawn from them; in which order they are given plays no part."""
        if self.pool is None:
            return peers
        if self.pool > len(peers):
            raise InputError(f"got --pool {self.pool}; expected at most {len(peers)}, the number of peers")
        return random.Random(self.pool_seed).sample(sorted(peers), self.pool)

    def show(self, table: Table) -> None:
        """Write the report where one is asked for, and print one JSON object or a table."""
        from sigma_mem.bench.table import write_report

        files = [] if self.report is None else write_report(table, self.report)
        if self.as_json:
            print_json(table.values())
        else:
            print_table(*table.grid(), [*table.remarks(), *map(str, files)])


def experiment_command(command: Callable[..., Table]) -> Callable[..., None]:
    """Make an option of each field of every parameter that is a dataclass, and print the command's table."""
    own = inspect.signature(command).parameters
    groups: dict[str, Any] = {name: p.annotation for name, p in own.items() if is_dataclass(p.annotation)}
    fields = {name: inspect.signature(group, eval_str=True).parameters for name, group in groups.items()}

    @wraps(command)
    def run(**given: Any) -> None:
        made = {name: groups[name](**{key: given.pop(key) for key in keys}) for name, keys in fields.items()}
        made["options"].show(command(**given, **made))

    taken = [p for name, p in own.items() if name not in groups]
    taken += [p for keys in fields.values() for p in keys.values()]
    taken = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in taken]
    run.__signature__ = inspect.Signature(taken)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in taken}
    return run
