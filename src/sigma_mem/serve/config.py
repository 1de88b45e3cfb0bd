"""What the service is told: one frozen value, from a file, the environment and the command line."""

import ipaddress
import json
import os
import re
import socket
import tomllib
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from fnmatch import fnmatchcase
from pathlib import Path
from types import NoneType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    TypeVar,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)
from urllib.parse import urlsplit

from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as checked_dataclass
from typing_extensions import TypedDict

from sigma_mem.encode import ENCODERS
from sigma_mem.errors import InputError
from sigma_mem.judges import EndpointJudge
from sigma_mem.ledger.lines import OpenLine
from sigma_mem.memory import Settings

FILE = "sigma-mem.toml"
PREFIX = "SIGMA_MEM_"  # of environment variables: SIGMA_MEM_PORT, SIGMA_MEM_LIMITS_BODY_BYTES
_HOST = re.compile(r"[^\s/\\@]+")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@-]{0,127}")  # of peers: what a `model` field may hold
_HEADER = re.compile(r"[A-Za-z0-9-]{1,64}")
_OWN_HEADERS = ("authorization", "x-api-key", "cookie", "host", "content-type", "content-length")
Mode = Literal["apply", "observe", "bypass"]
AlarmKind = Literal["drift", "circuit", "source", "budget", "store"]
Signal = Literal["rephrased", "regenerated", "retried", "tool_arguments", "tool_loop", "tests"]
Speaks = Literal[
    "chat", "messages", "responses"
]  # Chat Completions, Anthropic's Messages, OpenAI's Responses
SIGNALS: tuple[Signal, ...] = get_args(Signal)
Count = Annotated[int, Field(ge=1)]
Amount = Annotated[float, Field(ge=0.0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0.0, le=1.0)]
Seconds = Annotated[float, Field(gt=0.0, le=3600.0)]


T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def _settings(of: str = "") -> Callable[[type[T]], type[T]]:
    """A frozen dataclass whose values fit their annotations; else an InputError says which one does not."""

    def declare(kind: type[T]) -> type[T]:
        made: Any = checked_dataclass(frozen=True, slots=True, config=ConfigDict(extra="forbid"))(kind)
        check = made.__init__

        def init(self: Any, *given: Any, **named: Any) -> None:
            try:
                check(self, *given, **named)
            except ValidationError as error:
                name = named.get("name", given[0] if given else "")
                raise _refused(error, of, name if "name" in made.__annotations__ else "") from None

        made.__init__ = init
        return made  # type: ignore[no-any-return]

    return declare


def _refused(error: ValidationError, of: str = "", name: str = "") -> InputError:
    """The first value that does not fit, in one line. Values without a place here are not repeated."""
    fault = error.errors(include_url=False)[0]
    cause = fault.get("ctx", {}).get("error")
    if isinstance(cause, InputError):
        return cause
    place = [part for part in fault["loc"] if isinstance(part, str)]
    where, kind = of + ".".join(place), fault["type"]
    if kind in ("extra_forbidden", "unexpected_keyword_argument"):
        table = {**TABLES, **LISTS}.get(place[0], ServerConfig) if len(place) > 1 else ServerConfig
        return InputError(f"it sets {where}; expected one of {sorted(each.name for each in fields(table))}")
    if kind == "missing":
        return InputError(f"it has {'.'.join(place[:-1]) or of} without {place[-1]}, which is required")
    if kind == "dataclass_type":
        return InputError(f"{where} is {fault['input']!r}; expected a table")
    whose = f" of {name!r}" if name else ""
    return InputError(f"{where}{whose} is {fault['input']!r}: {fault['msg']}")


@_settings()
class Upstream:
    """A model that the gateway may call: one peer."""

    # The peer's name.
    name: str
    # Of its server, with the path: ``https://host/v1``.
    base_url: str
    # What that server calls the model; the peer's name by default.
    model: str = ""
    # The environment variable that holds the server's key; the key itself is never in the configuration.
    key_env: str = ""
    # The header that holds it: "authorization" or "x-api-key"; by default, what its protocol is used to.
    key_header: Literal["", "authorization", "x-api-key"] = ""
    # What the server speaks: "chat", "messages", "responses". A request in another protocol is translated
    # into the first one.
    protocols: Annotated[tuple[Speaks, ...], Field(min_length=1)] = ("chat",)
    # What of a request may be lost in translation, by the names that responses give: "thinking"; "*" for
    # everything.
    may_lose: tuple[str, ...] = ()
    # The reasoning effort, and a system prompt before the request's own, of every call: one model at two
    # efforts is two peers.
    effort: str = ""
    system: str = ""
    # Other fields of every call's body, in the words of the server's protocol; they replace the request's.
    parameters: Mapping[str, Any] = field(default_factory=dict, hash=False)
    # Of a million tokens, in any currency.
    input_price: Amount = 0.0
    output_price: Amount = 0.0
    # Of a million tokens that the server's cache held; `input_price` by default.
    cached_price: Amount | None = None
    # Seconds until the peer counts as failed.
    timeout: Seconds = 60.0
    # Further headers of every call; no keys, which belong into `key_env`.
    headers: Mapping[str, str] = field(default_factory=dict, hash=False)
    # The upstream from whose record it starts when it joins a memory that others were in before, and how many
    # labels that record counts for.
    like: str = ""
    worth: Annotated[float, Field(gt=0.0, allow_inf_nan=False)] = 20.0

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name) or re.split("[/:]", self.name)[0] == "sigma-mem":
            raise InputError(
                f"an upstream's name is {self.name!r}; expected letters, digits and . _ : / @ -, "
                "not starting with sigma-mem, which names the memory itself"
            )
        _check_url(self)
        if self.key_env and not _VARIABLE.fullmatch(self.key_env):  # it may be the key itself
            raise InputError(f"key_env of {self.name!r} is not the name of an environment variable")
        for name, value in self.headers.items():
            if not _HEADER.fullmatch(name) or not value.isprintable() or name.lower() in _OWN_HEADERS:
                raise InputError(
                    f"headers of {self.name!r} have {name!r}; expected names of letters, digits, -, values "
                    f"of one line, and none of {list(_OWN_HEADERS)}: a key belongs into key_env"
                )
        if not self.model:
            object.__setattr__(self, "model", self.name)

    @property
    def cached(self) -> float:
        """The price of a million tokens that its cache held."""
        return self.input_price if self.cached_price is None else self.cached_price

    @property
    def has_price(self) -> bool:
        """Whether its tokens cost anything."""
        return self.input_price > 0.0 or self.output_price > 0.0

    def key(self, environment: Mapping[str, str] = os.environ) -> str | None:
        """The key to call it with; None if it needs none."""
        if not self.key_env:
            return None
        key = environment.get(self.key_env, "").strip()
        if not key:
            raise InputError(
                f"upstream {self.name!r} takes its key from ${self.key_env}, which is not set; set it first"
            )
        return key


def _check_url(upstream: Upstream) -> None:
    """Only http(s), no credentials in the address, no link-local address (where clouds keep secrets)."""
    parts = urlsplit(upstream.base_url)
    wrong = f"base_url of {upstream.name!r} is {upstream.base_url!r}"
    if parts.username or parts.password:
        raise InputError(f"base_url of {upstream.name!r} holds a user or password; put the key into key_env")
    host = parts.hostname or ""
    try:
        is_address = parts.scheme in ("http", "https") and _HOST.fullmatch(host) and parts.port != 0
    except ValueError:  # of the port
        is_address = False
    if not is_address or parts.query or parts.fragment:
        raise InputError(f"{wrong}; expected http(s)://host/v1")
    if is_no_servers(host):
        raise InputError(f"{wrong}, a link-local, multicast or empty address; expected a server's own")


def is_no_servers(host: str) -> bool:
    """Whether a host is a link-local, multicast or empty address, in any spelling; False for a name.

    >>> [is_no_servers(host) for host in ("169.254.169.254", "0xa9fea9fe", "127.0.0.1", "host")]
    [True, True, False, False]
    """
    host = host.rstrip(".")
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        try:
            address = ipaddress.IPv4Address(socket.inet_aton(host))  # fewer parts, hexadecimal, octal
        except OSError:
            return False
    address = getattr(address, "ipv4_mapped", None) or address
    return address.is_link_local or address.is_multicast or address.is_unspecified


@_settings("limits.")
class RequestLimits:
    """What one request, and one key, may ask for."""

    # Largest body and largest headers of a request.
    body_bytes: Count = 4_000_000
    header_bytes: Count = 16_384
    # Most items in one batch of feedback, and most rows in one answer.
    batch: Count = 1_000
    # Requests a second for each key, twice that in a burst; 0 for no limit.
    rate: Amount = 0.0
    # Requests a second without a valid key, for each address; the next ones get 429.
    refused_rate: Amount = 10.0
    # Requests at once; if all are taken, a key that has its share of them gets 503.
    concurrency: Count = 1_000
    # Connections at once; a new one closes the one that has waited longest for a request.
    connections: Count = 4_000
    # Within which a request must have arrived, and a client must have read some of its response.
    request_seconds: Seconds = 30.0
    # Calls of one namespace that read the ledger at once, and that wait for it; the next ones get 429.
    threads: Count = 2
    waiting: Count = 64
    # Most namespaces in the store.
    namespaces: Count = 10_000
    # Largest state that the peers and rank of one namespace may need.
    state_bytes: Count = 256_000_000
    # Most decisions of the gateway that wait, in each namespace, until the store is back.
    unrecorded: Count = 10_000


@_settings("the topic's ")
class TopicRule:
    """A topic of the gateway: which requests have it, and a mode of its own.

    A request that names topics itself (in its body, a header or its model) has those. Any other has the topic
    of every rule all of whose conditions hold; a rule without a condition names none.
    """

    # The topic.
    name: str
    # As `mode` and `usual` of the gateway, for requests with this topic; empty for the gateway's own.
    mode: Literal["", "apply", "observe", "bypass"] = ""
    peer: str = ""
    # Patterns as of a shell, with ``*``: of the API key's name, of a tool that the request offers, and of the
    # path that it came to.
    key: str = ""
    tool: str = ""
    path: str = ""
    # A text that occurs in the system prompt, in upper or lower case.
    system: str = ""

    def __post_init__(self) -> None:
        if not self.mode and not self.has_condition:
            raise InputError(
                f"topic {self.name!r} has no mode and no condition; expected mode, key, tool, path or system"
            )

    @property
    def has_condition(self) -> bool:
        """Whether it says which requests have the topic."""
        return bool(self.key or self.tool or self.path or self.system)

    def fits(self, key: str, path: str, system: str, tools: Sequence[str]) -> bool:
        """Whether a request has the topic.

        >>> TopicRule("code", tool="git_*").fits("ci", "/v1/messages", "", ["git_log"])
        True
        """
        return (
            self.has_condition
            and (not self.key or fnmatchcase(key, self.key))
            and (not self.path or fnmatchcase(path, self.path))
            and (not self.system or self.system.casefold() in system.casefold())
            and (not self.tool or any(fnmatchcase(tool, self.tool) for tool in tools))
        )


@_settings("alarms.")
class AlarmSettings:
    """When the service raises an alarm."""

    # Seconds between looks at drift, sources and spending, and at what metrics say of them.
    every: Annotated[float, Field(gt=0.0, le=86400.0)] = 60.0
    # Spending in a namespace on one day (UTC) that is an alarm; 0 for none.
    daily_budget: Amount = 0.0


@_settings("a webhook's ")
class Webhook:
    """An address that gets every alarm, signed as standardwebhooks.com says."""

    # Where alarms are sent, by POST.
    url: str
    # The environment variable that holds the secret they are signed with.
    secret_env: str
    # Which alarms: "drift", "circuit", "source", "budget", "store"; all by default.
    kinds: Annotated[tuple[AlarmKind, ...], Field(min_length=1)] = get_args(AlarmKind)

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname or is_no_servers(parts.hostname):
            raise InputError("the url of a webhook is not http(s)://host/path; expected that")
        if not _VARIABLE.fullmatch(self.secret_env):
            raise InputError("secret_env of a webhook is not the name of an environment variable")

    def secret(self, environment: Mapping[str, str] = os.environ) -> bytes:
        """What its messages are signed with."""
        secret = environment.get(self.secret_env, "").strip()
        if not secret:
            raise InputError(f"a webhook is signed with ${self.secret_env}, which is not set; set it first")
        try:
            return b64decode(secret.removeprefix("whsec_"), validate=True)
        except ValueError:
            raise InputError(f"${self.secret_env} is no base64; expected whsec_ and base64") from None


@_settings()
class JudgeSettings:
    """A model that scores the answers of a vote; see `sigma_mem.judges.EndpointJudge`."""

    # As of an upstream.
    name: str
    base_url: str
    model: str = ""
    key_env: str = ""
    # What it is asked; the paper's words by default.
    instruction: str = ""
    template: str = ""
    # "yes-no", or "number" if the template asks for one.
    reads: Literal["yes-no", "number"] = "yes-no"
    # Of its reply; a model that thinks aloud needs hundreds.
    max_tokens: int = 4
    # Seconds for all answers to one question together.
    timeout: float = 10.0
    # Requests a minute, and what may be spent in 24 hours.
    per_minute: float | None = None
    budget: float | None = None
    # Of a million tokens, in the currency of the upstreams' prices.
    input_price: float = 0.0
    output_price: float = 0.0

    def opened(self, value: float) -> EndpointJudge:
        """The judge, for whom a right answer is worth so much; 0 asks it whatever it costs."""
        texts = {"instruction": self.instruction, "template": self.template}
        return EndpointJudge(
            self.name,
            self.base_url,
            self.model or self.name,
            key_env=self.key_env or None,
            reads=self.reads,
            max_tokens=self.max_tokens,
            timeout=self.timeout,
            per_minute=self.per_minute,
            budget=self.budget,
            price_in=self.input_price,
            price_out=self.output_price,
            value=value or None,
            **{name: text for name, text in texts.items() if text},  # type: ignore[arg-type]
        )


if TYPE_CHECKING:
    MemoryTable = Mapping[str, Any]
else:  # some of the fields of `Settings`; sources that are trusted are a setting of the service
    MemoryTable = TypedDict(
        "MemoryTable",
        {name: hint for name, hint in get_type_hints(Settings).items() if name != "trusted"},
        total=False,
    )
    MemoryTable.__pydantic_config__ = ConfigDict(extra="forbid")


def _known_encoder(name: str) -> str:
    if name not in ENCODERS:
        raise ValueError(f"expected one of {sorted(ENCODERS)}")
    return name


@_settings()
class ServerConfig:
    """Everything the service is told."""

    # Where it listens; port 0 takes a free one.
    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8321
    # The memory's file, or ``postgresql://…``; None keeps everything in the process.
    path: str | None = None
    # The file of API keys (``sigma-mem keys add``).
    keys: str | None = None
    # Of requests to the gateway that name none. It is made at start, with the upstreams as peers.
    namespace: str = "default"
    # Names of keys whose feedback is taken as it is in new namespaces; other keys weigh as much as they
    # agree. Without any, no key is trusted more than another.
    trusted: tuple[str, ...] | None = None
    # What turns questions into φ in new namespaces: "static" (default), "hashed", "minilm".
    encoder: Annotated[str, AfterValidator(_known_encoder)] | None = None
    # Other settings of new namespaces: the fields of `Settings`.
    memory: MemoryTable = field(default_factory=dict, hash=False)
    # Judges that score the answers of a vote, if that may change it and is worth the price at `value`.
    judges: tuple[JudgeSettings, ...] = ()
    # Whether questions and answers go into the ledger.
    keep_text: bool = False
    # What the gateway does while the store is away. "serve": it decides from the state in memory, marks the
    # responses, and records when the store is back. "refuse": 503.
    on_store_failure: Literal["serve", "refuse"] = "serve"
    # What the gateway may call.
    upstreams: tuple[Upstream, ...] = ()
    # What prices and costs are in, for people: "EUR", say. Empty for no name.
    currency: str = ""
    # Whether routes of the gateway explore if the request does not say.
    explore: bool = True
    # Of the gateway. "apply": the memory chooses. "observe": the peer that a request names serves, or
    # `usual`, and what the memory would have chosen is recorded. "bypass": the same without a record.
    mode: Mode = "apply"
    # The peer that serves in "observe" and "bypass" if a request names none; the first by default.
    usual: str = ""
    # Which requests have which topic, and topics with a mode of their own.
    topics: tuple[TopicRule, ...] = ()
    # Addresses that are told of alarms.
    webhooks: tuple[Webhook, ...] = ()
    # What a right answer is worth, in the unit of the prices: weighed against what it costs to take a
    # conversation to another peer.
    value: Amount = 0.0
    # How much better than its peer another must be at least to take over a conversation.
    switch_margin: Share = 0.05
    # What of the gateway's traffic is a label: "rephrased", "regenerated", "retried", "tool_arguments",
    # "tool_loop", "tests". None by default.
    signals: tuple[Signal, ...] = ()
    # Evaluations that count, of those that OpenTelemetry sends to ``/v1/logs``: "NAME", "NAME>=0.7",
    # "NAME<=0.2" or "NAME=word", each also with "*WEIGHT". None by default.
    metrics: tuple[str, ...] = ()
    # Seconds for one request to the gateway, over all peers it tries, until its stream has ended.
    deadline: Annotated[float, Field(gt=0.0, le=86400.0)] = 600.0
    # Names under which clients reach the service, besides its own address and localhost; and origins of other
    # web pages that may call it.
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    # Addresses of reverse proxies whose X-Forwarded-For header says who calls; nobody's by default.
    proxies: tuple[str, ...] = ()
    # File that says who wrote what, one JSON object a line.
    audit: str | None = None
    # "json", "text" or "off".
    log: Literal["json", "text", "off"] = "json"
    # Whether every request is a line of the log, or only those that failed.
    access_log: bool = True
    # Whether spans go to OpenTelemetry (extra ``[otel]``), as its own OTEL_ variables say.
    telemetry: bool = False
    # How long requests may still run after the signal to stop.
    shutdown_seconds: Annotated[float, Field(ge=0.0, le=3600.0)] = 20.0
    # When an alarm is raised.
    alarms: AlarmSettings = field(default_factory=AlarmSettings)
    # What one request, and one key, may ask for.
    limits: RequestLimits = field(default_factory=RequestLimits)

    def __post_init__(self) -> None:
        self.made_with(())  # its settings go together
        names = [upstream.name for upstream in self.upstreams]
        for what, given in (("upstreams", names), ("judges", [judge.name for judge in self.judges])):
            if len(set(given)) < len(given):
                raise InputError(f"{what} are named {given}; expected every name once")
        for each in self.upstreams:
            if each.like and (each.like == each.name or each.like not in names):
                raise InputError(
                    f"upstream {each.name!r} is like {each.like!r}; expected another one of {names}"
                )
        named = [(self.usual, "the gateway"), *((each.peer, f"topic {each.name!r}") for each in self.topics)]
        for peer, of in named:
            if peer and peer not in names:
                raise InputError(f"the usual peer of {of} is {peer!r}; expected an upstream, one of {names}")

    def made_with(self, trusted: Sequence[str]) -> Settings:
        """The settings of a new namespace, in which these sources are trusted unless others are named."""
        return Settings(**self.memory, trusted=tuple(trusted if self.trusted is None else self.trusted))

    def differs_from(self, opening: OpenLine) -> dict[str, tuple[Any, Any]]:
        """Settings of a memory that this names and that the memory was made without: both values."""
        wanted, held = self.made_with(()), opening.settings
        said = {*self.memory, *(("gamma", "horizons") if {"gamma", "horizons"} & set(self.memory) else ())}
        found = {f"memory.{name}": (getattr(wanted, name), getattr(held, name)) for name in sorted(said)}
        if self.trusted is not None:
            found["trusted"] = tuple(sorted(self.trusted)), tuple(sorted(held.trusted))
        if self.encoder is not None:
            found["encoder"] = self.encoder, opening.encoder["name"]
        found["keep_text"] = self.keep_text, opening.keep_text
        return {name: values for name, values in found.items() if values[0] != values[1]}

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def needs_keys(self) -> bool:
        """Whether every request needs an API key: others can reach it, or an upstream costs money."""
        return not self.is_loopback or bool(self.key_variables)

    @property
    def key_variables(self) -> list[str]:
        """Environment variables that hold keys of upstreams and judges."""
        named = [upstream.key_env for upstream in self.upstreams] + [judge.key_env for judge in self.judges]
        return [variable for variable in named if variable]


@dataclass(frozen=True, slots=True)
class LoadedConfig:
    """A configuration, and where each of its values came from."""

    config: ServerConfig
    origins: Mapping[str, str]  # "port" → "sigma-mem.toml", "environment SIGMA_MEM_PORT", "--port", "default"


TABLES: dict[str, type] = {"memory": Settings, "alarms": AlarmSettings, "limits": RequestLimits}
LISTS: dict[str, type] = {
    "upstreams": Upstream,
    "judges": JudgeSettings,
    "topics": TopicRule,
    "webhooks": Webhook,
}


def load_config(
    file: str | os.PathLike[str] | None = None,
    environment: Mapping[str, str] = os.environ,
    flags: Mapping[str, object] | None = None,
) -> LoadedConfig:
    """The configuration in force: flags before environment before file before defaults.

    Parameters
    ----------
    file : path, optional
        A TOML file; ``sigma-mem.toml`` in the working directory, if there is one, by default.
    environment : mapping
        Variables ``SIGMA_MEM_PORT`` and so on; lists are separated by commas.
    flags : mapping, optional
        Values given on the command line; None if an option was not given.
    """
    path = Path(FILE if file is None else file)
    table = {} if file is None and not path.is_file() else _read(path)
    said, origins = flags or {}, {name: path.name if table.get(name) else "default" for name in LISTS}
    for prefix, kind in {"": ServerConfig, **TABLES}.items():
        held = table.setdefault(prefix, {}) if prefix else table
        for name, hint in get_type_hints(kind, include_extras=True).items():
            if name in (*TABLES, *LISTS) or (kind is Settings and name == "trusted"):
                continue
            setting = f"{prefix}.{name}" if prefix else name
            variable = PREFIX + setting.upper().replace(".", "_")
            origins[setting] = path.name if name in held else "default"
            if said.get(setting) is not None:
                held[name], origins[setting] = said[setting], f"--{name.replace('_', '-')}"
            elif variable in environment:
                held[name], origins[setting] = (
                    _from_text(environment[variable], hint, f"{setting} (${variable})"),
                    f"environment {variable}",
                )
    try:  # as JSON, whose arrays are tuples also if texts are not taken for numbers
        config = TypeAdapter(ServerConfig).validate_json(json.dumps(table, default=str), strict=True)
    except ValidationError as error:
        raise InputError(f"{path}: {_refused(error, name=_entry(error, table))}") from None
    return LoadedConfig(config, origins)


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"there is no configuration file {path}; make it first") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not TOML: {error}") from error


def _from_text(text: str, hint: Any, what: str) -> Any:
    """The value of a variable; commas separate a list, and an empty text is None if there may be none."""
    kinds = (hint, *get_args(hint))
    if text == "" and NoneType in kinds:
        return None
    is_list = any(get_origin(kind) is tuple for kind in kinds)
    value = [part.strip() for part in text.split(",") if part.strip()] if is_list else text
    try:
        return TypeAdapter(hint).validate_python(value)
    except ValidationError as error:
        raise InputError(f"{what} is {text!r}: {error.errors()[0]['msg']}") from None


def _entry(error: ValidationError, table: Mapping[str, Any]) -> str:
    """The name of the entry of a list in which a value does not fit, if it has one."""
    match error.errors()[0]["loc"]:
        case (str(name), int(place), *_) if name in LISTS and isinstance(table[name][place], dict):
            return str(table[name][place].get("name", ""))
    return ""
