"""Who is asked and how: a peer's specification and its settings, from the command line or a TOML file."""

import re
import shlex
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from sigma_mem.errors import InputError

KINDS = ("openai", "hf", "gguf", "command", "local")
_EXPECTED = "openai:BASE_URL#MODEL, hf:MODEL, gguf:FILE, command:PROGRAM or local:SOLVER"


@dataclass(frozen=True)
class PeerSettings:
    """One peer: its specification, how it is prompted, how it samples, and how hard it may be pressed."""

    name: str
    spec: str
    # --- the prompt (not for commands and local solvers, which get the question itself) ---
    system: str | None = None
    template: str = "{prompt}"
    examples: str | None = None
    """A file of JSON lines with ``prompt`` and ``answer``: few-shot."""
    # --- sampling ---
    temperature: float = 0.0
    top_p: float = 1.0
    max_tokens: int = 512
    seed: int = 0
    stop: tuple[str, ...] = ()
    body: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of an endpoint's request, such as ``reasoning_effort``."""
    omit: tuple[str, ...] = ()
    """Fields of the request that the endpoint does not accept."""
    # --- pace ---
    key_env: str | None = None
    """The environment variable that holds the endpoint's key."""
    rate: float | None = None
    """Requests per minute."""
    concurrency: int = 4
    timeout: float = 120.0
    """Seconds for one request, from the first byte to the last."""
    retries: int = 5
    backoff: float = 0.5
    """Seconds before the first retry; they double each time, up to a minute."""
    # --- money: per million tokens ---
    price_in: float | None = None
    price_out: float | None = None
    # --- local models ---
    choose: bool = False
    """Answer a question with choices by the option that the model (hf) finds most likely, not by writing."""
    batch: int = 16
    context: int = 8192
    device: str | None = None
    dtype: str = "auto"

    def __post_init__(self) -> None:
        _check(self)

    @property
    def kind(self) -> str:
        """What comes before the first colon of the specification."""
        return self.spec.partition(":")[0]

    @property
    def target(self) -> str:
        """What comes after it: a URL with its model, a name, a file or a command."""
        return self.spec.partition(":")[2]

    @property
    def endpoint(self) -> tuple[str, str]:
        """Base URL and model of an endpoint."""
        url, _, model = self.target.partition("#")
        return url, model


def peer_from(name: str, spec: str, values: Mapping[str, Any]) -> PeerSettings:
    """Settings from names and values as TOML gives them; what is not named keeps its default."""
    allowed = _types()
    checked: dict[str, Any] = {}
    for option, value in values.items():
        if option not in allowed:
            known = ", ".join(sorted(allowed))
            raise InputError(f"peer {name!r}: got option {option!r}; expected one of {known}")
        checked[option] = _as(allowed[option], value, f"peer {name!r}: {option}")
    return PeerSettings(name, spec, **checked)


def read_peers(path: Path, defaults: Mapping[str, Any] | None = None) -> dict[str, dict[str, Any]]:
    """The tables ``[peers.NAME]`` of a TOML file, over its table ``[defaults]``, over ``defaults``.

    Paths in it are relative to its folder.
    """
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read the peers of {path}: {error}") from error
    peers, shared = found.get("peers"), found.get("defaults", {})
    if not isinstance(peers, dict) or not peers or not all(isinstance(p, dict) for p in peers.values()):
        raise InputError(f"{path}: expected a table [peers.NAME] for every peer")
    if unknown := set(found) - {"peers", "defaults"}:
        raise InputError(f"{path}: got {sorted(unknown)}; expected [defaults] and [peers.NAME]")
    below = {**(defaults or {}), **_located(shared, path)}
    tables = {name: {**below, **_located(peer, path)} for name, peer in peers.items()}
    for name, table in tables.items():
        if not isinstance(table.get("spec"), str):
            raise InputError(f"{path}: peer {name!r} has no spec; expected spec = '{_EXPECTED}'")
    return tables


def toml_value(text: str) -> Any:
    """A value as TOML reads it; what it cannot read is a string.

    >>> toml_value("0.7"), toml_value("few.jsonl"), toml_value('["a", "b"]')
    (0.7, 'few.jsonl', ['a', 'b'])
    """
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (tomllib.TOMLDecodeError, KeyError):
        return text


def _located(table: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """The table with the path of its examples, and of a GGUF file, seen from the TOML file's folder."""
    out = dict(table)
    if isinstance(out.get("examples"), str):
        out["examples"] = str(path.parent / out["examples"])
    spec = out.get("spec")
    if isinstance(spec, str) and spec.startswith("gguf:"):
        out["spec"] = f"gguf:{path.parent / spec.removeprefix('gguf:')}"
    return out


def _types() -> dict[str, str]:
    return {
        f.name: f.type.__name__ if isinstance(f.type, type) else str(f.type)
        for f in fields(PeerSettings)
        if f.name not in ("name", "spec")
    }


def _as(kind: str, value: Any, what: str) -> Any:
    """The value in the type that a field declares, or InputError."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if kind == "bool" and isinstance(value, bool):
        return value
    if "float" in kind and number:
        return float(value)
    if kind.startswith("int") and number and isinstance(value, int):
        return value
    if kind.startswith("str") and isinstance(value, str):
        return value
    if kind.startswith("tuple") and isinstance(value, str | list | tuple):
        texts = [value] if isinstance(value, str) else list(value)
        if all(isinstance(text, str) for text in texts):
            return tuple(texts)
    if "Mapping" in kind and isinstance(value, dict):
        return dict(value)
    expected = "a table" if "Mapping" in kind else "texts" if kind.startswith("tuple") else kind
    raise InputError(f"{what}: got {value!r}; expected {expected.replace(' | None', '')}")


def _check(peer: PeerSettings) -> None:
    """Refuse what could only fail later, after some answers were paid for."""
    where = f"peer {peer.name!r}"
    if not re.fullmatch(r"[\w][\w.+@/-]*", peer.name):
        raise InputError(f"got the peer's name {peer.name!r}; expected letters, digits and . _ - + @ /")
    if peer.kind not in KINDS or not peer.target.strip():
        raise InputError(f"{where}: got {peer.spec!r}; expected {_EXPECTED}")
    if peer.kind == "openai":
        _check_endpoint(peer, where)
    elif peer.key_env is not None:
        raise InputError(f"{where}: got key_env; expected it for an endpoint (openai:) only")
    if peer.choose and peer.kind != "hf":
        raise InputError(f"{where}: got choose; expected it for a Hugging Face model (hf:) only")
    if peer.kind == "command":
        command_words(peer)
    if "{prompt}" not in peer.template:
        raise InputError(f"{where}: got template {peer.template!r}; expected {{prompt}} in it")
    for option, least in (
        ("concurrency", 1),
        ("batch", 1),
        ("max_tokens", 1),
        ("retries", 0),
        ("context", 64),
    ):
        if getattr(peer, option) < least:
            raise InputError(f"{where}: got {option} {getattr(peer, option)}; expected at least {least}")
    if not (peer.timeout > 0 and peer.backoff >= 0 and (peer.rate is None or peer.rate > 0)):
        got = f"timeout {peer.timeout}, backoff {peer.backoff}, rate {peer.rate}"
        raise InputError(f"{where}: got {got}; expected positive numbers")
    if not 0 <= peer.temperature <= 2 or not 0 < peer.top_p <= 1:
        got = f"temperature {peer.temperature}, top_p {peer.top_p}"
        raise InputError(f"{where}: got {got}; expected 0 to 2, and above 0 up to 1")


def _check_endpoint(peer: PeerSettings, where: str) -> None:
    url, model = peer.endpoint
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise InputError(
            f"{where}: got {peer.spec!r}: {error}; expected openai:http://HOST:PORT/v1#MODEL"
        ) from error
    if parts.scheme not in ("http", "https") or not parts.hostname or not model:
        raise InputError(f"{where}: got {peer.spec!r}; expected openai:http://HOST:PORT/v1#MODEL")
    if parts.username is not None or re.search(r"\bsk-\w{8}", peer.spec):
        raise InputError(
            f"{where}: the specification seems to hold a key, which would be recorded with every answer; "
            "put it into an environment variable and name that with key_env"
        )
    if peer.key_env is not None and not re.fullmatch(r"[A-Za-z_]\w*", peer.key_env):
        raise InputError(f"{where}: got a key_env that is no name; expected an environment variable's name")


def command_words(peer: PeerSettings) -> list[str]:
    """The words of a command, split as a shell would."""
    try:
        words = shlex.split(peer.target)
    except ValueError as error:
        raise InputError(f"peer {peer.name!r}: cannot split {peer.target!r} into words: {error}") from error
    if not words:
        raise InputError(f"peer {peer.name!r}: got an empty command; expected a program")
    return words
