"""Options that several commands share, what their values mean, and those that follow from a method.

A command on a memory is a function of an open memory. `reads`, `changes` and `makes` add the options that
open it, and `takes` those of a method in the table of operations, with the texts of its docstring.
"""

import inspect
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, is_dataclass
from functools import partial, update_wrapper
from pathlib import Path
from typing import Annotated, Any, TypeVar, cast, get_args

import typer
from typer import Argument, Option

from sigma_mem.answers.canon import KINDS
from sigma_mem.cli.output import Found, print_found
from sigma_mem.errors import InputError
from sigma_mem.memory import Settings
from sigma_mem.operations import TABLE, Operation
from sigma_mem.session import SigmaMem
from sigma_mem.store.open import file_of, open_store, shown_path
from sigma_mem.streams import load_stream
from sigma_mem.streams.tables import Columns, Imported, ending_of, load_table

T = TypeVar("T")


class MemoryUrl(os.PathLike[str]):
    """The address of a memory in PostgreSQL instead of a file; it prints without credentials."""

    def __init__(self, url: str) -> None:
        self._url, self._shown = url, shown_path(url)

    def __fspath__(self) -> str:
        return self._url

    def __str__(self) -> str:
        return self._shown

    def exists(self) -> bool:
        """Whether there is a memory."""
        with closing(open_store(self._url)) as store:
            return bool(store.namespaces())


def memory_path(text: str) -> Path:
    """What ``--memory`` names: a file, or the address of a PostgreSQL database."""
    return file_of(text) or cast(Path, MemoryUrl(text))


MEMORY = "SIGMA_MEM_MEMORY"  # the variable that names the memory if --memory is left out
_SHOWN: Any = {"envvar": MEMORY, "show_default": False, "metavar": "PATH"}
MEMORY_OPTION: Any = Option(
    "--memory", "-m", help="The memory's file, or postgresql://…", parser=memory_path, **_SHOWN
)
MemoryFile = Annotated[Path, MEMORY_OPTION]
Namespace = Annotated[str, Option(help="Name of the memory within the file.")]
Peers = Annotated[
    str | None,
    Option(help="Names of the peers, separated by commas; makes a new memory.", show_default=False),
]
EncoderName = Annotated[
    str | None, Option("--encoder", help="For a new memory: static (default), hashed, minilm or sentence.")
]
CanonName = Annotated[str, Option("--canon", help=f"How answers are compared: {', '.join(KINDS)}.")]
Json = Annotated[bool, Option("--json", help="Print one JSON object.")]


def existing(path: Path) -> Path:
    """The path of a file that is there, or the address of a database."""
    if not isinstance(path, MemoryUrl) and not path.is_file():
        raise InputError(f"got {path}, but there is no such file; expected an existing memory")
    return path


def opened(memory: MemoryFile, namespace: Namespace = "default") -> SigmaMem:
    """The memory in an existing file, to change it."""
    return SigmaMem(path=existing(memory), namespace=namespace)


@contextmanager
def opened_to_read(memory: MemoryFile, namespace: Namespace = "default") -> Iterator[SigmaMem]:
    """The memory in an existing file, read-only."""
    with closing(open_store(existing(memory), readonly=True)) as store:
        if namespace not in store.namespaces():
            raise InputError(f"got namespace {namespace!r}; expected one of {store.namespaces()} of {memory}")
        yield SigmaMem(store=store, namespace=namespace)


def opened_or_made(
    memory: MemoryFile,
    peers: Peers = None,
    namespace: Namespace = "default",
    encoder: EncoderName = None,
    gamma: Annotated[
        float | None,
        Option(help="For a new memory: what is left of evidence after one event (default 0.9995)."),
    ] = None,
    no_text: Annotated[
        bool, Option("--no-text", help="For a new memory: keep numbers only, no questions and answers.")
    ] = False,
) -> SigmaMem:
    """The memory; with peers, a new one if there is none."""
    if not memory.exists() and peers is None:
        raise InputError(
            f"got --memory {memory}, but there is no such file; give --peers a,b,c to make a new memory"
        )
    check_folder("--memory", memory)
    settings, keep_text = None if gamma is None else Settings(gamma=gamma), False if no_text else None
    given: dict[str, Any] = {"namespace": namespace, "encoder": encoder}
    return SigmaMem(names_of(peers), memory, settings=settings, keep_text=keep_text, **given)


def check_folder(option: str, file: Path) -> None:
    """Say now, and not after the work, that the file could not be written."""
    if not isinstance(file, MemoryUrl) and not file.absolute().parent.is_dir():
        raise InputError(f"got {option} {file}, in a folder that does not exist; make the folder first")


def text_of(question: str | None) -> str | None:
    """The question, or standard input if it is "-"."""
    if question != "-":
        return question
    try:
        text = typer.get_text_stream("stdin").read().strip()
    except UnicodeDecodeError as error:
        raise InputError(f"got '-' and bytes that are no text ({error}); expected UTF-8") from error
    if not text:
        raise InputError("got '-' and nothing on standard input; expected the question there")
    return text


def names_of(text: str | None) -> list[str] | None:
    """Names separated by commas."""
    return None if text is None else [name.strip() for name in text.split(",")]


def named_values(pairs: Sequence[str], what: str) -> dict[str, str]:
    """``peer=value`` arguments as a mapping, in order.

    >>> named_values(["a=391", "b=x=1"], "answer")
    {'a': '391', 'b': 'x=1'}
    """
    values: dict[str, str] = {}
    for pair in pairs:
        peer, sign, value = pair.partition("=")
        if not sign or not peer:
            raise InputError(f"got {what} {pair!r}; expected peer=value")
        if peer in values:
            raise InputError(f"got two values of {what} for peer {peer!r}; expected one")
        values[peer] = value
    return values


Recorded = Annotated[
    Path, Argument(help="A stream (.jsonl, .gz, .zst), or a table: CSV, Parquet.", show_default=False)
]


@dataclass(frozen=True, slots=True)
class TableColumns:
    """Which columns of a recorded table are what; none for a stream."""

    question: Annotated[str, Option(help="Table: column of the question.")] = "question"
    event: Annotated[str | None, Option(help="Table: column that shows which rows are one event.")] = None
    peer: Annotated[str | None, Option(help="Table with a row per answer: column of the peer.")] = None
    answer: Annotated[
        list[str] | None, Option("--answer", "-a", help="Column of the answer, or peer=column.")
    ] = None
    label: Annotated[
        list[str] | None, Option(help="Column of true and false or -1 to 1, or peer=column.")
    ] = None
    score: Annotated[list[str] | None, Option(help="Column of scores from 0 to 1, or peer=column.")] = None
    canon: CanonName = "auto"

    def load(self, file: Path) -> Imported:
        """The recorded stream, and how many answers were dropped for which reason."""
        if self.canon not in KINDS:
            raise InputError(f"got --canon {self.canon}; expected one of {', '.join(KINDS)}")
        named = {"answer": self.answer or [], "label": self.label or [], "score": self.score or []}
        if self.peer is None and not any(named.values()):
            if ending_of(file) in (".csv", ".parquet"):
                raise InputError(
                    f"got the table {file} without its columns; expected --score peer=column for every peer "
                    "or, with one answer a row, --peer, --answer and --score"
                )
            return Imported(load_stream(file), {})
        columns: dict[str, Any] = {}
        for what, given in named.items():
            if any("=" in text for text in given):
                columns[f"{what}s"] = named_values(given, what)
            elif len(given) > 1:
                raise InputError(
                    f"got --{what} {len(given)} times; expected one column, or peer=column for each"
                )
            elif given:
                columns[what] = given[0]
        found = Columns(self.question, self.event, peer=self.peer, **columns)
        return load_table(file, found, kind=self.canon)

    def dropped_lines(self, dropped: Mapping[str, int]) -> list[str]:
        """What to print about rows that were dropped."""
        said = [f"dropped {count}: {reason}" for reason, count in dropped.items()]
        if dropped and self.event is None:
            said.append("rows with the same question count as one event: name the event's column by --event")
        return said


Command = Callable[..., Found]


def shows(command: Command) -> Callable[..., None]:
    """Print what a command found, as one JSON object with --json."""

    def run(json: Json = False, **given: Any) -> None:
        print_found(command(**given), json)

    return _with_options(run, command, [*_parameters(command), _parameters(run)[0]])


def reads(command: Command) -> Callable[..., None]:
    """A command on an existing memory, which is its first argument and stays as it is."""
    return shows(_on_memory(command, opened_to_read))


def changes(command: Command) -> Callable[..., None]:
    """A command that may change an existing memory, which is its first argument."""
    return shows(_on_memory(command, opened))


def makes(command: Command) -> Callable[..., None]:
    """A command on a memory that is made if there is none."""
    return shows(_on_memory(command, opened_or_made))


def _on_memory(command: Command, opening: Callable[..., Any]) -> Command:
    """A command with the options that open its memory; it gets those it names itself as well."""
    _, *own = _parameters(command)
    memory, *how = _parameters(opening)
    opens, named = {memory.name, *(p.name for p in how)}, {p.name for p in own}

    def run(**given: Any) -> Found:
        with opening(**{name: value for name, value in given.items() if name in opens}) as mem:
            return command(mem, **{name: value for name, value in given.items() if name in named})

    return _with_options(run, command, [memory, *(p for p in own if p.name not in opens), *how])


# Parameters that are typed otherwise than they are passed: the option, and what makes the value of it.
_TYPED: Mapping[str, tuple[Any, Callable[[Any], Any]]] = {
    "question": (
        Annotated[str | None, Argument(help='The task; "-" reads it from standard input.')],
        text_of,
    ),
    "answers": (
        Annotated[list[str], Option("--answer", "-a", help="peer=text, once per peer.", show_default=False)],
        partial(named_values, what="answer"),
    ),
    "among": (
        Annotated[str | None, Option(help="Candidates, separated by commas; the others are left out.")],
        names_of,
    ),
    "topic": (
        Annotated[
            list[str] | None,
            Option("--topic", help="Kind of task, if you know it; may be repeated.", show_default=False),
        ],
        lambda topics: topics,
    ),
    "canon": (CanonName, lambda kind: kind),
}
_NOT_TYPED = ("phi", "budget", "judges", "note", "verdicts", "weight")


def takes(name: str, *arguments: str) -> Callable[[Command], Command]:
    """Give a command the parameters of a method of a memory: these as arguments, the others as options.

    What the command declares itself stays as it is.
    """
    operation = TABLE[name]

    def wrap(command: Command) -> Command:
        first, *own = (p for p in _parameters(command) if p.kind is not p.VAR_KEYWORD)
        declared = {p.name for p in own}
        keys = [key for key in operation.parameters if key not in declared and key not in _NOT_TYPED]

        def run(mem: SigmaMem, **given: Any) -> Found:
            made = {key: _TYPED[key][1](given.pop(key)) for key in keys if key in _TYPED}
            return command(mem, **given, **made)

        taken = [_option(operation, key, Argument if key in arguments else Option) for key in keys]
        return _with_options(run, command, [first, *taken, *own])

    return wrap


def _option(operation: Operation[Any, Any], name: str, kind: Callable[..., Any]) -> inspect.Parameter:
    """An option for a parameter of a method."""
    parameter, hint = operation.parameters[name], operation.hints[name]
    if name in _TYPED:
        return parameter.replace(annotation=_TYPED[name][0])
    kinds = [each for each in get_args(hint) if each is not type(None)] or [hint]
    plain: Any = str if str in kinds else kinds[0]
    typed = plain | None if parameter.default is None else plain
    flag = [f"--{name}"] if hint is bool else []
    option = kind(*flag, help=operation.described(name), show_default=parameter.default is not None)
    return parameter.replace(annotation=Annotated[typed, option])


def grouped_options(command: Callable[..., T]) -> Callable[..., T]:
    """Make an option of each field of every parameter that is a dataclass."""
    own = _parameters(command)
    groups: dict[str, Any] = {p.name: p.annotation for p in own if is_dataclass(p.annotation)}
    fields = {name: inspect.signature(group, eval_str=True).parameters for name, group in groups.items()}

    def run(**given: Any) -> T:
        made = {name: groups[name](**{key: given.pop(key) for key in keys}) for name, keys in fields.items()}
        return command(**given, **made)

    taken = [p for p in own if p.name not in groups] + [p for keys in fields.values() for p in keys.values()]
    return _with_options(run, command, taken)


def _parameters(command: Callable[..., Any]) -> list[inspect.Parameter]:
    return list(inspect.signature(command).parameters.values())


def _with_options(
    run: Callable[..., T], command: Callable[..., Any], options: Sequence[inspect.Parameter]
) -> Callable[..., T]:
    """`run` under the name and help of `command`, with these options."""
    update_wrapper(run, command)
    taken = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in options]
    run.__signature__ = inspect.Signature(taken)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in taken}
    return run
