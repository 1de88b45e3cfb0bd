"""Peers to ask: the specification and settings of each, from the command line or a TOML file."""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from sigma_mem.errors import InputError

_EXPECTED = "openai:http://HOST:PORT/v1#MODEL"


class PeerSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One peer: a model behind an endpoint, how it is prompted and samples, and how fast it is asked."""

    name: Annotated[str, Meta(pattern=r"^\w[\w.+@/-]*$")]
    spec: str
    # --- the prompt ---
    system: str | None = None
    template: Annotated[str, Meta(pattern=r"\{prompt\}")] = "{prompt}"
    examples: str | None = None
    """A file of JSON lines with ``prompt`` and ``answer``: few-shot."""
    # --- sampling ---
    temperature: Annotated[float, Meta(ge=0, le=2)] = 0.0
    top_p: Annotated[float, Meta(gt=0, le=1)] = 1.0
    max_tokens: Annotated[int, Meta(ge=1)] = 512
    seed: int = 0
    stop: tuple[str, ...] = ()
    body: Mapping[str, Any] = {}  # msgspec copies it
    """Further fields of an endpoint's request, such as ``reasoning_effort``."""
    omit: tuple[str, ...] = ()
    """Fields of the request that the endpoint does not accept."""
    # --- pace ---
    key_env: Annotated[str, Meta(pattern=r"^[A-Za-z_]\w*$")] | None = None
    """The environment variable that holds the endpoint's key."""
    rate: Annotated[float, Meta(gt=0)] | None = None
    """Requests per minute."""
    concurrency: Annotated[int, Meta(ge=1)] = 4
    timeout: Annotated[float, Meta(gt=0)] = 120.0
    """Seconds for one request, from the first byte to the last."""
    retries: Annotated[int, Meta(ge=0)] = 5
    backoff: Annotated[float, Meta(ge=0)] = 0.5
    """Seconds before the first retry; they double each time, up to a minute."""
    # --- money: per million tokens ---
    price_in: float | None = None
    price_out: float | None = None

    @property
    def endpoint(self) -> tuple[str, str]:
        """Base URL and model of an endpoint."""
        url, _, model = self.spec.removeprefix("openai:").partition("#")
        return url, model


def peer_from(name: str, spec: str, values: Mapping[str, Any]) -> PeerSettings:
    """Settings from names and values as TOML gives them; what is not named keeps its default."""
    try:
        peer = msgspec.convert({**values, "name": name, "spec": spec}, PeerSettings)
    except msgspec.ValidationError as error:
        raise InputError(f"peer {name!r}: {error}") from error
    _check_endpoint(peer, f"peer {peer.name!r}")
    return peer


def read_peers(path: Path, defaults: Mapping[str, Any] | None = None) -> dict[str, dict[str, Any]]:
    """The tables ``[peers.NAME]`` of a TOML file, over its table ``[defaults]``, over ``defaults``.

    The paths of examples are relative to its folder.
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
    tables = {name: {**(defaults or {}), **shared, **peer} for name, peer in peers.items()}
    for name, table in tables.items():
        if not isinstance(table.get("spec"), str):
            raise InputError(f"{path}: peer {name!r} has no spec; expected spec = '{_EXPECTED}'")
        if "examples" in {**shared, **peers[name]}:
            table["examples"] = str(path.parent / str(table["examples"]))
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


def _check_endpoint(peer: PeerSettings, where: str) -> None:
    url, model = peer.endpoint
    expected = f"expected {_EXPECTED}"
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise InputError(f"{where}: got {peer.spec!r}: {error}; {expected}") from error
    if (
        not peer.spec.startswith("openai:")
        or parts.scheme not in ("http", "https")
        or not parts.hostname
        or not model
    ):
        raise InputError(f"{where}: got {peer.spec!r}; {expected}")
    if parts.username is not None or re.search(r"\bsk-\w{8}", peer.spec):
        raise InputError(
            f"{where}: the specification seems to hold a key, which would be recorded with every answer; "
            "put it into an environment variable and name that with key_env"
        )
