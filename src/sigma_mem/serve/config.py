"""What the service is told: one frozen value, from a file, the environment and the command line."""

import ipaddress
import os
import re
import socket
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints
from urllib.parse import SplitResult, urlsplit

from sigma_mem.errors import InputError

T = TypeVar("T")
FILE = "sigma-mem.toml"
PREFIX = "SIGMA_MEM_"  # of environment variables: SIGMA_MEM_PORT, SIGMA_MEM_LIMITS_BODY_BYTES
_HOST = re.compile(r"[^\s/\\@]+")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@-]{0,127}")  # of peers: what a `model` field may hold
MODES = ("apply", "observe", "bypass")
PROTOCOLS = ("chat", "messages", "responses")  # Chat Completions, Anthropic's Messages, OpenAI's Responses


@dataclass(frozen=True, slots=True)
class Upstream:
    """A model that the gateway may call: one peer.

    Attributes
    ----------
    name : str
        The peer's name.
    base_url : str
        Of its server, with the path: ``https://host/v1``.
    model : str
        What that server calls the model; the peer's name by default.
    key_env : str
        The environment variable that holds the server's key; the key itself is never in the configuration.
    key_header : str
        The header that holds it: "authorization" or "x-api-key"; by default, what its protocol is used to.
    protocols : tuple of str
        What the server speaks: "chat", "messages", "responses". A request in another protocol is translated
        into the first one.
    may_lose : tuple of str
        What of a request may be lost in translation, by the names that responses give: "thinking"; "*" for
        everything.
    effort, system : str
        The reasoning effort, and a system prompt before the request's own, of every call: one model at two
        efforts is two peers.
    parameters : mapping
        Other fields of every call's body, in the words of the server's protocol; they replace the request's.
    input_price, output_price : float
        Of a million tokens, in any currency.
    cached_price : float, optional
        Of a million tokens that the server's cache held; `input_price` by default.
    timeout : float
        Seconds until the peer counts as failed.
    """

    name: str
    base_url: str
    model: str = ""
    key_env: str = ""
    key_header: str = ""
    protocols: tuple[str, ...] = ("chat",)
    may_lose: tuple[str, ...] = ()
    effort: str = ""
    system: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict, hash=False)
    input_price: float = 0.0
    output_price: float = 0.0
    cached_price: float | None = None
    timeout: float = 60.0

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name) or self.name.split("/")[0] == "sigma-mem":
            raise InputError(
                f"an upstream's name is {self.name!r}; expected letters, digits and . _ : / @ -, "
                "not starting with sigma-mem, which names the memory itself"
            )
        _check_url(self)
        if self.key_env and not _VARIABLE.fullmatch(self.key_env):  # it may be the key itself
            raise InputError(f"key_env of {self.name!r} is not the name of an environment variable")
        if self.key_header not in ("", "authorization", "x-api-key"):
            raise InputError(
                f"key_header of {self.name!r} is {self.key_header!r}; expected authorization or x-api-key"
            )
        if not self.protocols or not set(self.protocols) <= set(PROTOCOLS):
            raise InputError(
                f"protocols of {self.name!r} are {list(self.protocols)}; expected some of {list(PROTOCOLS)}"
            )
        for what in ("input_price", "output_price", "cached"):
            if not 0.0 <= getattr(self, what) < float("inf"):
                raise InputError(f"{what} of {self.name!r} is {getattr(self, what)!r}; expected 0 or more")
        if not 0.0 < self.timeout <= 3600.0:
            raise InputError(f"timeout of {self.name!r} is {self.timeout!r}; expected seconds, up to 3600")
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
        """The key to call it with; None where it needs none."""
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
    if (
        parts.scheme not in ("http", "https")
        or not _HOST.fullmatch(host)
        or not _has_port_or_none(parts)
        or parts.query
        or parts.fragment
    ):
        raise InputError(f"{wrong}; expected http(s)://host/v1")
    if is_no_servers(host):
        raise InputError(f"{wrong}, a link-local, multicast or empty address; expected a server's own")


def _has_port_or_none(parts: SplitResult) -> bool:
    try:
        return parts.port is None or parts.port > 0
    except ValueError:
        return False


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


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """What one request, and one key, may ask for.

    Attributes
    ----------
    body_bytes, header_bytes : int
        Largest body and largest headers of a request.
    batch : int
        Most items in one batch of feedback, and most rows in one answer.
    rate : float
        Requests a second for each key, twice that in a burst; 0 for no limit.
    refused_rate : float
        Requests a second without a valid key, for each address; the next ones get 429.
    concurrency : int
        Requests at once; the next ones get 503.
    connections : int
        Connections at once; a new one closes the one that has waited longest for a request.
    request_seconds : float
        Within which a request must have arrived, and a client must have read some of its response.
    threads, waiting : int
        Calls of one namespace that read the ledger at once, and that wait for it; the next ones get 429.
    namespaces : int
        Most namespaces in the store.
    state_bytes : int
        Largest state that the peers and rank of one namespace may need.
    """

    body_bytes: int = 4_000_000
    header_bytes: int = 16_384
    batch: int = 1_000
    rate: float = 0.0
    refused_rate: float = 10.0
    concurrency: int = 1_000
    connections: int = 4_000
    request_seconds: float = 30.0
    threads: int = 4
    waiting: int = 64
    namespaces: int = 10_000
    state_bytes: int = 256_000_000

    def __post_init__(self) -> None:
        counts = ("body_bytes", "header_bytes", "batch", "concurrency", "connections", "threads", "waiting")
        for what in (*counts, "namespaces", "state_bytes"):
            if getattr(self, what) < 1:
                raise InputError(f"limits.{what} is {getattr(self, what)!r}; expected 1 or more")
        for what in ("rate", "refused_rate"):
            if not 0.0 <= getattr(self, what) < float("inf"):
                raise InputError(f"limits.{what} is {getattr(self, what)!r}; expected 0 or more a second")
        if not 0.0 < self.request_seconds <= 3600.0:
            raise InputError(f"limits.request_seconds is {self.request_seconds!r}; expected up to 3600")


@dataclass(frozen=True, slots=True)
class TopicMode:
    """A topic with a mode of its own at the gateway; `peer` serves if a request names none."""

    name: str
    mode: str
    peer: str = ""


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """Everything the service is told.

    Attributes
    ----------
    host, port : str, int
        Where it listens; port 0 takes a free one.
    path : str, optional
        The memory's file, or ``postgresql://…``; None keeps everything in the process.
    keys : str, optional
        The file of API keys (``sigma-mem keys add``).
    namespace : str
        Of requests to the gateway that name none. It is made at start, with the upstreams as peers.
    trusted : tuple of str
        Names of keys whose feedback is taken as it is in new namespaces; other keys weigh as much as they
        agree. Without any, no key is trusted more than another.
    upstreams : tuple of Upstream
        What the gateway may call.
    keep_text : bool
        Whether questions and answers go into the ledger.
    explore : bool
        Whether routes of the gateway explore where nothing is said.
    mode : str
        Of the gateway. "apply": the memory chooses. "observe": the peer that a request names serves, or
        `usual`, and what the memory would have chosen is recorded. "bypass": the same without a record.
    usual : str
        The peer that serves in "observe" and "bypass" if a request names none; the first by default.
    topics : tuple of TopicMode
        Topics with a mode of their own.
    value : float
        What a right answer is worth, in the unit of the prices: weighed against what it costs to take a
        conversation to another peer.
    switch_margin : float
        How much better than its peer another must be at least to take over a conversation.
    deadline : float
        Seconds for one request to the gateway, over all peers it tries, until its stream has ended.
    allowed_hosts, allowed_origins : tuple of str
        Names under which clients reach the service, beside its own address and localhost; and origins of
        other web pages that may call it.
    proxies : tuple of str
        Addresses of reverse proxies whose X-Forwarded-For header says who calls; nobody's by default.
    audit : str, optional
        File that says who wrote what, one JSON object a line.
    log : str
        "json", "text" or "off".
    access_log : bool
        Whether every request is a line of the log, or only those that failed.
    telemetry : bool
        Whether spans go to OpenTelemetry (extra ``[otel]``), as its own OTEL_ variables say.
    shutdown_seconds : float
        How long requests may still run after the signal to stop.
    """

    host: str = "127.0.0.1"
    port: int = 8321
    path: str | None = None
    keys: str | None = None
    namespace: str = "default"
    trusted: tuple[str, ...] = ()
    upstreams: tuple[Upstream, ...] = ()
    keep_text: bool = False
    explore: bool = True
    mode: str = "apply"
    usual: str = ""
    topics: tuple[TopicMode, ...] = ()
    value: float = 0.0
    switch_margin: float = 0.05
    deadline: float = 600.0
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    proxies: tuple[str, ...] = ()
    audit: str | None = None
    log: str = "json"
    access_log: bool = True
    telemetry: bool = False
    shutdown_seconds: float = 20.0
    limits: RequestLimits = field(default_factory=RequestLimits)

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65535:
            raise InputError(f"port is {self.port!r}; expected 0 to 65535")
        if self.log not in ("json", "text", "off"):
            raise InputError(f"log is {self.log!r}; expected json, text or off")
        names = [upstream.name for upstream in self.upstreams]
        if len(set(names)) < len(names):
            raise InputError(f"upstreams are named {names}; expected every name once")
        for mode, peer, of in [
            (self.mode, self.usual, "the gateway"),
            *((topic.mode, topic.peer, f"topic {topic.name!r}") for topic in self.topics),
        ]:
            if mode not in MODES:
                raise InputError(f"mode of {of} is {mode!r}; expected one of {list(MODES)}")
            if peer and peer not in names:
                raise InputError(f"the usual peer of {of} is {peer!r}; expected an upstream, one of {names}")
        if not 0.0 <= self.value < float("inf") or not 0.0 <= self.switch_margin <= 1.0:
            raise InputError("value or switch_margin is out of range; expected 0 or more, and 0 to 1")
        if not 0.0 < self.deadline <= 86400.0 or not 0.0 <= self.shutdown_seconds <= 3600.0:
            raise InputError("deadline or shutdown_seconds is out of range; expected seconds")

    def mode_for(self, topic: str | list[str] | None) -> tuple[str, str]:
        """The mode of a request with these topics, and the peer that serves if it names none."""
        given = [topic] if isinstance(topic, str) else topic or []
        usual = self.usual or (self.upstreams[0].name if self.upstreams else "")
        for each in self.topics:
            if each.name in given:
                return each.mode, each.peer or usual
        return self.mode, usual

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
        return not self.is_loopback or any(upstream.key_env for upstream in self.upstreams)


@dataclass(frozen=True, slots=True)
class LoadedConfig:
    """A configuration, and where each of its values came from."""

    config: ServerConfig
    origins: Mapping[str, str]  # "port" → "sigma-mem.toml", "environment SIGMA_MEM_PORT", "--port", "default"


def load_config(
    file: str | os.PathLike[str] | None = None,
    environment: Mapping[str, str] = os.environ,
    flags: Mapping[str, object] | None = None,
) -> LoadedConfig:
    """The configuration in force: flags before environment before file before defaults.

    Parameters
    ----------
    file : path, optional
        A TOML file; ``sigma-mem.toml`` in the working directory, where there is one, by default.
    environment : mapping
        Variables ``SIGMA_MEM_PORT`` and so on; lists are separated by commas.
    flags : mapping, optional
        Values given on the command line; None where an option was not given.
    """
    path = Path(FILE if file is None else file)
    if file is None and not path.is_file():
        table: dict[str, Any] = {}
    else:
        table = _read(path)
    top, origins = _gathered(ServerConfig, table, path.name, "", environment, flags or {})
    limits, of_limits = _gathered(
        RequestLimits, table.pop("limits", {}), path.name, "limits.", environment, {}
    )
    upstreams = _entries(Upstream, "upstreams", ("name", "base_url"), table, path.name)
    topics = _entries(TopicMode, "topics", ("name", "mode"), table, path.name)
    unknown = [key for key in table if key not in top]
    if unknown:
        known = sorted({f.name for f in fields(ServerConfig)})
        raise InputError(f"{path} sets {', '.join(unknown)}; expected {', '.join(known)}")
    config = ServerConfig(**top, upstreams=upstreams, topics=topics, limits=RequestLimits(**limits))
    origins["upstreams"] = path.name if upstreams else "default"
    origins["topics"] = path.name if topics else "default"
    return LoadedConfig(config, origins | of_limits)


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"got the configuration {path}, where there is no file; make it first") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not TOML: {error}") from error


def _gathered(
    kind: type,
    table: Mapping[str, Any],
    file: str,
    prefix: str,
    env: Mapping[str, str],
    flags: Mapping[str, object],
) -> tuple[dict[str, Any], dict[str, str]]:
    """Values of a dataclass's plain fields, each from the strongest origin that has it."""
    hints, values, origins = get_type_hints(kind), {}, {}
    for each in fields(kind):
        if each.name in ("upstreams", "topics", "limits"):
            continue
        variable = PREFIX + (prefix + each.name).upper().replace(".", "_")
        if flags.get(each.name) is not None:
            values[each.name], origin = flags[each.name], f"--{each.name.replace('_', '-')}"
        elif variable in env:
            values[each.name], origin = env[variable], f"environment {variable}"
        elif each.name in table:
            values[each.name], origin = table[each.name], file
        else:
            values[each.name], origin = each.default, "default"
        values[each.name] = _converted(values[each.name], hints[each.name], f"{prefix}{each.name} ({origin})")
        origins[prefix + each.name] = origin
    for key in table:
        if prefix and key not in hints:
            raise InputError(f"{file} sets {prefix}{key}; expected one of {sorted(hints)}")
    return values, origins


def _entries(
    kind: type[T], name: str, required: tuple[str, ...], table: dict[str, Any], file: str
) -> tuple[T, ...]:
    """The values of a list of tables: ``[[upstreams]]``, ``[[topics]]``."""
    hints, found = get_type_hints(kind), []
    for entry in table.pop(name, ()):
        if not isinstance(entry, dict):
            raise InputError(f"{file} has {name} {entry!r}; expected a table [[{name}]]")
        if "key" in entry:
            raise InputError(
                f"{file} has the key of an upstream in it; expected key_env, the variable that holds it"
            )
        for key in entry:
            if key not in hints:
                raise InputError(f"{file} sets {name}.{key}; expected one of {sorted(hints)}")
        for key in required:
            if key not in entry:
                raise InputError(
                    f"{file} has {name} without {key}; expected {' and '.join(required)} at least"
                )
        values = {key: _converted(value, hints[key], f"{name}.{key}") for key, value in entry.items()}
        found.append(kind(**values))
    return tuple(found)


def _converted(value: Any, hint: Any, what: str) -> Any:
    """A value of the file or the environment as its field's type."""
    if get_origin(hint) is UnionType:  # str | None
        return None if value is None or value == "" else _converted(value, get_args(hint)[0], what)
    if get_origin(hint) is tuple:
        items = [part.strip() for part in value.split(",")] if isinstance(value, str) else value
        if not isinstance(items, list | tuple) or not all(isinstance(item, str) for item in items):
            raise InputError(f"{what} is {value!r}; expected a list of texts")
        return tuple(item for item in items if item)
    if get_origin(hint) is Mapping and isinstance(value, dict):
        return value
    if hint is bool and isinstance(value, str):
        words = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
        if value.lower() not in words:
            raise InputError(f"{what} is {value!r}; expected true or false")
        return words[value.lower()]
    if hint in (int, float) and not isinstance(value, bool) and isinstance(value, str | int | float):
        try:
            number = hint(value)
        except ValueError:
            number = None
        if number is not None and (hint is float or isinstance(value, str) or number == value):
            return number
    elif isinstance(value, hint):
        return value
    raise InputError(f"{what} is {value!r}; expected {hint.__name__}")
