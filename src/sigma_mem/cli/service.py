"""``sigma-mem serve``, ``config``, ``keys`` and ``mcp``: memories for other programs."""

import os
import time
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from sigma_mem.cli.options import EncoderName, MemoryFile, Namespace, Peers, names_of, opened_or_made, shows
from sigma_mem.cli.output import Found, moment, print_table
from sigma_mem.errors import InputError

if TYPE_CHECKING:
    from sigma_mem.serve.config import ServerConfig, Upstream

ConfigFile = Annotated[
    Path | None, Option("--config", "-c", help="Configuration; sigma-mem.toml, if there is one, by default.")
]
Host = Annotated[str | None, Option(help="Address to listen on (default 127.0.0.1).")]
Port = Annotated[int | None, Option(help="Port; 0 takes a free one (default 8321).")]
MemoryPath = Annotated[
    str | None, Option("--path", help="The memory's file, or postgresql://…; none keeps it in the process.")
]
KeyFile = Annotated[str | None, Option("--keys", help="The file of API keys.")]

keys_app = typer.Typer(
    name="keys", no_args_is_help=True, add_completion=False, help="API keys of the service."
)


def serve(
    config: ConfigFile = None,
    host: Host = None,
    port: Port = None,
    path: MemoryPath = None,
    keys: KeyFile = None,
    log: Annotated[str | None, Option(help="json, text or off (default json).")] = None,
    access_log: Annotated[
        bool | None, Option("--access-log/--no-access-log", help="Whether every request is logged.")
    ] = None,
) -> None:
    """Serve memories over HTTP until Ctrl-C: API, dashboard, and a gateway in front of models.

    Examples:
    sigma-mem serve --path memory.db

    sigma-mem keys add ci --keys keys.json --role write
    sigma-mem serve --path memory.db --keys keys.json --host 0.0.0.0
    """
    from sigma_mem.serve.config import load_config
    from sigma_mem.serve.server import serve as run

    flags = {"host": host, "port": port, "path": path, "keys": keys, "log": log, "access_log": access_log}
    loaded = load_config(config, flags=flags).config

    def started(address: str) -> None:
        typer.echo(f"sigma-mem serves on {address}")
        typer.echo(f"the dashboard is {address}/dashboard/")
        if loaded.path is None:
            typer.echo("nothing is kept on disk: give --path memory.db, or set path in sigma-mem.toml")

    run(loaded, started)


@shows
def config(
    file: ConfigFile = None,
    host: Host = None,
    port: Port = None,
    path: MemoryPath = None,
    keys: KeyFile = None,
) -> Found:
    """Print the service's configuration, and where each value comes from.

    An existing memory keeps the settings that it was made with.

    Examples:
    sigma-mem config

    sigma-mem config --config production.toml --json
    """
    from sigma_mem.serve.config import load_config
    from sigma_mem.serve.memories import recorded_opening
    from sigma_mem.store.open import shown_path

    loaded = load_config(file, flags={"host": host, "port": port, "path": path, "keys": keys})
    values, origins, differs = _flat(loaded.config), dict(loaded.origins), {}
    if loaded.config.path is not None:
        values["path"] = shown_path(loaded.config.path)
    opening = recorded_opening(loaded.config)
    if opening is not None:
        differs = loaded.config.differs_from(opening)
        held = {f"memory.{name}": value for name, value in asdict(opening.settings).items()}
        held |= {"trusted": opening.settings.trusted, "encoder": opening.encoder["name"]}
        held |= {"keep_text": opening.keep_text}
        values |= {name: held[name] for name in values if name in held}
        origins |= dict.fromkeys(set(values) & set(held), f"the memory {loaded.config.namespace!r}")
    given = {name: {"said": differs[name][0]} for name in differs}
    found = {name: {"value": value, "from": origins[name]} for name, value in values.items()}
    rows = [(name, _text(value), origins[name]) for name, value in values.items()]
    place = [name for name, *_ in rows].index("upstreams") + 1
    rows[place:place] = [
        (f"  {upstream.name}", _upstream_text(upstream), loaded.origins["upstreams"])
        for upstream in loaded.config.upstreams
    ]
    if not loaded.config.is_loopback:
        why = f"API keys are required: others can reach {loaded.config.host}."
    elif loaded.config.needs_keys:
        why = "API keys are required: an upstream has a key."
    elif loaded.config.keys is not None:
        why = f"API keys are required: keys is set ({loaded.origins['keys']})."
    else:
        why = "API keys are not required: it listens on loopback, and no upstream has a key."
    notes = [
        f"{name} is {_text(said)} ({loaded.origins[name]}), and the memory was made with {_text(is_)}: "
        + ("it goes on as it was made." if name == "keep_text" and said else "the service refuses to start.")
        for name, (said, is_) in differs.items()
    ]
    shown = partial(print_table, ("name", "value", "from"), rows, [*notes, why])
    return {name: each | given.get(name, {}) for name, each in found.items()}, shown


def mcp(
    memory: MemoryFile,
    peers: Peers = None,
    namespace: Namespace = "default",
    encoder: EncoderName = None,
    source: Annotated[str, Option(help="Source of this feedback: a person or program.")] = "default",
) -> None:
    """Serve a memory to an agent as MCP tools, over standard input and output.

    Examples:
    sigma-mem mcp --memory memory.db

    sigma-mem mcp --memory memory.db --peers gemma,phi,coder --source my-agent
    """
    from sigma_mem.serve.mcp import serve_stdio

    with opened_or_made(memory, peers, namespace, encoder) as mem:
        serve_stdio(mem, namespace, source)


@keys_app.command("add")
@shows
def add(
    name: Annotated[str, Argument(help="Name of its holder; also the source of its feedback.")],
    keys: KeyFile = None,
    role: Annotated[str, Option(help="read, write or admin.")] = "write",
    namespace: Annotated[
        str, Option(help="Namespaces in which the role holds: names separated by commas, or * for all.")
    ] = "*",
    config: ConfigFile = None,
) -> Found:
    """Make an API key. It is printed once and kept as a hash; a running service takes it within a second.

    Examples:
    sigma-mem keys add ci --keys keys.json --role write --namespace default
    """
    from sigma_mem.serve.keys import add_key

    file = _key_file(keys, config)
    key = add_key(file, name, dict.fromkeys(names_of(namespace) or (), role), time.time())
    return {"name": name, "key": key, "file": file}, key


@keys_app.command("list")
@shows
def list_(keys: KeyFile = None, config: ConfigFile = None) -> Found:
    """List API keys by name, with their roles.

    Examples:
    sigma-mem keys list --keys keys.json
    """
    from sigma_mem.serve.keys import read_keys

    found = read_keys(_key_file(keys, config))
    kept = [{"name": key.name, "grants": dict(key.grants), "created": key.created} for key in found]
    roles = [", ".join(f"{role} in {where}" for where, role in key.grants.items()) for key in found]
    rows = [(key.name, may, moment(key.created)) for key, may in zip(found, roles, strict=True)]
    return {"keys": kept}, partial(print_table, ("name", "role", "made (UTC)"), rows)


@keys_app.command("remove")
def remove(
    name: Annotated[str, Argument(help="Name of its holder.", show_default=False)],
    keys: KeyFile = None,
    config: ConfigFile = None,
) -> None:
    """Forget an API key; a running service refuses it within a second.

    Examples:
    sigma-mem keys remove ci --keys keys.json
    """
    from sigma_mem.serve.keys import remove_key

    remove_key(_key_file(keys, config), name)
    typer.echo(f"removed {name}")


def _key_file(given: str | None, config: Path | None) -> str:
    from sigma_mem.serve.config import load_config

    file = load_config(config, flags={"keys": given}).config.keys
    if file is None:
        raise InputError("got no file of API keys; give --keys FILE, or set keys in sigma-mem.toml")
    return file


def _flat(config: "ServerConfig") -> dict[str, Any]:
    """Values by name, with those of tables under names of their own."""
    values = asdict(config)
    tables = {"memory": asdict(config.made_with(())), "alarms": values["alarms"], "limits": values["limits"]}
    inside = {f"{table}.{name}": each[name] for table, each in tables.items() for name in each}
    return {
        name: value for name, value in (values | inside).items() if name not in (*tables, "memory.trusted")
    }


def _upstream_text(upstream: "Upstream") -> str:
    """One upstream in a line; of its key only the place."""
    parts = [upstream.base_url, f"model {upstream.model}", f"timeout {upstream.timeout:g} s"]
    if upstream.has_price:
        parts.append(f"{upstream.input_price:g}/{upstream.output_price:g} for a million tokens in/out")
    if upstream.key_env:
        state = "set" if os.environ.get(upstream.key_env, "").strip() else "NOT SET"
        parts.append(f"key in ${upstream.key_env}, {state}")
    return ", ".join(parts)


def _text(value: object) -> str:
    if isinstance(value, tuple | list):
        parts = [part.get("name") or part["url"] if isinstance(part, dict) else str(part) for part in value]
        return ", ".join(parts) or "—"
    return "—" if value in (None, "") else str(value)
