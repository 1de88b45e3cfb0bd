"""Options of the ``bench`` commands that add a center's rows: ``--center NAME [--steering CKPT] …``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sigma_mem.errors import InputError
from sigma_mem.streams import Stream

if TYPE_CHECKING:
    from sigma_mem.bench.center import BenchCenter
    from sigma_mem.bench.league import Progress


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
