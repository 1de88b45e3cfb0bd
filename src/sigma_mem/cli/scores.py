"""``sigma-mem scores``: feedback from the scores that other tools have."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any
from xml.etree.ElementTree import ParseError

from typer import Argument, Option

from sigma_mem.cli.options import MEMORY, Namespace, memory_path, opened, shows
from sigma_mem.cli.output import Found
from sigma_mem.client import Client
from sigma_mem.errors import InputError
from sigma_mem.scores import Metric, Score, record
from sigma_mem.scores.readers import FILES, SERVICES, get_from
from sigma_mem.session import SigmaMem

_SOURCES = (*SERVICES, *FILES)


@shows
def scores(
    source: Annotated[
        str,
        Argument(
            help=f"{', '.join(_SOURCES)}.",
            show_default=False,
        ),
    ],
    targets: Annotated[
        list[str], Argument(metavar="FILE...|URL", help="Its files, or the service's address.")
    ],
    memory: Annotated[
        str,
        Option(
            "--memory",
            "-m",
            help="A file, postgresql://…, or http://… of a service.",
            envvar=MEMORY,
            show_default=False,
        ),
    ],
    metric: Annotated[
        list[str],
        Option(help="What counts: NAME, NAME>=0.7, NAME<=0.2 or NAME=word, each also with *WEIGHT."),
    ],
    ref: Annotated[
        str | None, Option(help="Field that names the event: a path of keys, a column or property.")
    ] = None,
    since: Annotated[
        str | None, Option(help="Only scores from this time on, if the service can filter them.")
    ] = None,
    last: Annotated[int, Option(min=1, help="Look for scores of N decisions (services).")] = 1000,
    namespace: Namespace = "default",
) -> Found:
    """Import scores of another tool as feedback; importing them twice changes nothing.

    Examples:
    sigma-mem scores langfuse https://langfuse.example.com --memory memory.db --metric "correctness>=0.7"

    sigma-mem scores junit results.xml --memory memory.db --metric "passed>=1"

    sigma-mem scores csv scores.csv --memory memory.db --metric helpful --metric "toxic<=0.2*0.5"
    """
    metrics = dict(Metric.parse(text) for text in metric)
    if source not in _SOURCES:
        raise InputError(f"source is {source!r}; expected one of {', '.join(_SOURCES)}")
    with _memory(memory, namespace, metrics) as mem:
        if source in SERVICES:
            if len(targets) != 1 or not targets[0].startswith(("http://", "https://")):
                raise InputError(f"got {' '.join(targets)}; expected the address of {source}: https://…")
            refs = [decision.ref for decision in mem.decisions(last) if decision.ref is not None]
            found: Iterable[Score] = SERVICES[source](get_from(source, targets[0]), since, refs)
        else:
            given = {} if ref is None else {"ref": ref}
            found = [score for file in targets for score in _read(FILES[source], source, Path(file), given)]
        done = record(mem, found, metrics, source if memory_is_here(memory) else None)
    values = {"taken": done.taken, "unknown": done.unknown, "unused": done.unused}
    told = f"{done.taken} scores taken, {done.unknown} of events that this memory does not know"
    return values, f"{told}, {done.unused} unused"


def memory_is_here(memory: str) -> bool:
    """Whether it is not a memory in a service."""
    return not memory.startswith(("http://", "https://"))


def _memory(memory: str, namespace: str, metrics: Mapping[str, Any]) -> SigmaMem | Client:
    if memory_is_here(memory):
        return opened(memory_path(memory), namespace)
    if len(metrics) > 1:
        raise InputError(
            f"got {len(metrics)} metrics for a service, in which a source is the name of a key; expected one "
            "metric: run the command for each, with a key of its own in SIGMA_MEM_KEY"
        )
    return Client(memory, namespace=namespace)


def _read(
    reader: Callable[..., Iterable[Score]], source: str, file: Path, given: Mapping[str, str]
) -> Sequence[Score]:
    try:
        return list(reader(file, **given))
    except (KeyError, TypeError, AttributeError, ParseError) as error:
        raise InputError(
            f"{file}: does not look like {source} ({error!r}); expected what it writes"
        ) from error
