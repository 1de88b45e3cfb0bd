"""Every setting of the configuration file, changed on an existing memory; and the page of them."""

import importlib.util
import json
import shutil
import tomllib
from dataclasses import fields
from pathlib import Path

import pytest

from serve.conftest import served
from sigma_mem.cli.app import run
from sigma_mem.errors import InputError
from sigma_mem.serve.config import LISTS, TABLES, RequestLimits, ServerConfig, load_config
from sigma_mem.serve.keys import add_key

DOCS = Path(__file__).parents[2] / "docs"
UPSTREAMS = '[[upstreams]]\nname = "ann"\nbase_url = "http://127.0.0.1:9/v1"\n'
# What each is changed to, as TOML.
APPLIED = {
    "host": '"localhost"',
    "port": "0",
    "path": '"other.db"',
    "keys": '"keys.json"',
    "namespace": '"other"',
    "on_store_failure": '"refuse"',
    "currency": '"EUR"',
    "explore": "false",
    "mode": '"observe"',
    "usual": '"ann"',
    "signals": '["retried"]',
    "metrics": '["quality>=0.7"]',
    "value": "0.5",
    "switch_margin": "0.2",
    "deadline": "9.0",
    "allowed_hosts": '["a.example.org"]',
    "allowed_origins": '["https://a.example.org"]',
    "proxies": '["127.0.0.1"]',
    "audit": '"audit.jsonl"',
    "log": '"off"',
    "access_log": "false",
    "telemetry": "false",  # true needs an extra
    "shutdown_seconds": "1.0",
    "alarms.every": "5.0",
    "alarms.daily_budget": "3.0",
    **{f"limits.{f.name}": "7.0" if isinstance(f.default, float) else "700" for f in fields(RequestLimits)},
}
REFUSED = {
    "trusted": '["ci"]',
    "encoder": '"static"',
    "memory.gamma": "0.99",
    "memory.eta": "0.5",
    "memory.gamma_g": "0.9",
    "memory.eta_g": "0.1",
    "memory.decay": '"labelled"',
    "memory.half_life": "60.0",
    "memory.prior": "0.4",
    "memory.strength": "5.0",
    "memory.prior_labels": "3.0",
    "memory.text_features": "false",
    "memory.horizons": "[0.9, 0.99]",
    "memory.agreement": "false",
    "memory.regression": "false",
}
EXPLAINED = {"keep_text": "true"}
# Of every list an entry, and what each of its settings is changed to.
LISTED = {
    "upstreams": (
        {"name": '"ann"', "base_url": '"http://127.0.0.1:9/v1"'},
        {
            "name": '"eve"',
            "base_url": '"http://127.0.0.1:8/v1"',
            "model": '"large"',
            "key_env": '"ANN_KEY"',
            "key_header": '"x-api-key"',
            "protocols": '["messages"]',
            "may_lose": '["thinking"]',
            "effort": '"low"',
            "system": '"Be brief."',
            "parameters": "{ seed = 7 }",
            "input_price": "1.5",
            "output_price": "2.5",
            "cached_price": "0.5",
            "timeout": "3.0",
            "headers": '{ X-Team = "ops" }',
            "like": '"bob"',
            "worth": "5.0",
        },
    ),
    "judges": (
        {"name": '"big"', "base_url": '"http://127.0.0.1:9/v1"'},
        {
            "name": '"bigger"',
            "base_url": '"http://127.0.0.1:8/v1"',
            "model": '"large"',
            "key_env": '"BIG_KEY"',
            "instruction": '"Judge."',
            "template": '"{question} {answer}"',
            "reads": '"number"',
            "max_tokens": "9",
            "timeout": "3.0",
            "per_minute": "6.0",
            "budget": "1.0",
            "input_price": "1.5",
            "output_price": "2.5",
        },
    ),
    "topics": (
        {"name": '"law"', "key": '"a*"'},
        {
            "name": '"tax"',
            "mode": '"bypass"',
            "peer": '"ann"',
            "key": '"b*"',
            "tool": '"git_*"',
            "path": '"/v1/*"',
            "system": '"court"',
        },
    ),
    "webhooks": (
        {"url": '"http://127.0.0.1:9/"', "secret_env": '"HOOK"'},
        {"url": '"http://127.0.0.1:8/"', "secret_env": '"OTHER"', "kinds": '["drift"]'},
    ),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A memory that a service made with `gamma`, and the text of its configuration."""
    folder = tmp_path_factory.mktemp("settings")
    (folder / "first.toml").write_text(f'path = "{folder}/memory.db"\nencoder = "hashed"\n{UPSTREAMS}')
    with served(load_config(folder / "first.toml", {}).config):
        pass
    return folder


def write(folder, setting, value):
    """A configuration that differs in one setting from the one that the memory was made with."""
    table, _, name = setting.rpartition(".")
    line = f"{name} = {value}\n" + ('decay = "time"\n' if name == "half_life" else "")
    top = {"path": f'"{folder}/memory.db"', "log": '"off"'} | ({} if table else {setting: value})
    text = "".join(f"{key} = {said}\n" for key, said in top.items())
    file = folder / "sigma-mem.toml"
    file.write_text(f"{text}[{table}]\n{line}{UPSTREAMS}" if table else f"{text}{UPSTREAMS}")
    return file


def shown(file, setting, capsys):
    assert run(["config", "--config", str(file), "--json"]) == 0
    return json.loads(capsys.readouterr().out)[setting]


def test_every_setting_is_changed_here():
    known = {each.name for each in fields(ServerConfig)} - {*TABLES, *LISTS}
    known |= {f"{name}.{each.name}" for name, kind in TABLES.items() for each in fields(kind)}
    assert known - {"memory.trusted"} == {*APPLIED, *REFUSED, *EXPLAINED}
    assert {name: {each.name for each in fields(kind)} for name, kind in LISTS.items()} == {
        name: set(changed) for name, (_, changed) in LISTED.items()
    }


@pytest.mark.parametrize("setting", APPLIED)
def test_a_setting_of_the_service_is_applied(folder, setting, capsys, monkeypatch):
    monkeypatch.chdir(folder)
    file = write(folder, setting, APPLIED[setting])
    loaded = load_config(file, {})
    assert loaded.origins[setting] == "sigma-mem.toml"
    with served(loaded.config) as http:
        assert http.get("/healthz").status_code == 200
        found = http.context.config
        for name in setting.split("."):
            found = getattr(found, name)
    value = json.loads(APPLIED[setting])
    assert (list(found) if isinstance(found, tuple) else found) == value
    assert shown(file, setting, capsys) == {"value": value, "from": "sigma-mem.toml"}


@pytest.mark.parametrize(
    ("table", "name"), [(table, name) for table, (_, changed) in LISTED.items() for name in changed]
)
def test_a_setting_of_an_entry_is_applied(folder, table, name, monkeypatch, key_file, tmp_path):
    """On a memory in which there were upstreams, judges, topics and webhooks before."""
    entry, changed = LISTED[table]
    add_key(key_file, "ci", {"*": "admin"}, 0.0)
    for variable in ("ANN_KEY", "BIG_KEY", "HOOK", "OTHER"):
        monkeypatch.setenv(variable, "c2VjcmV0")
    lines = "".join(f"{key} = {value}\n" for key, value in (entry | {name: changed[name]}).items())
    others = UPSTREAMS if table != "upstreams" else ""
    memory, file = shutil.copy(folder / "memory.db", tmp_path), tmp_path / "sigma-mem.toml"
    file.write_text(
        f'path = "{memory}"\nkeys = "{key_file}"\n[[{table}]]\n{lines}'
        f'{others}[[upstreams]]\nname = "bob"\nbase_url = "http://127.0.0.1:9/v1"\n'
    )
    with served(load_config(file, {}).config) as http:
        found = getattr(getattr(http.context.config, table)[0], name)
    value = tomllib.loads(f"it = {changed[name]}")["it"]
    assert (list(found) if isinstance(found, tuple) else found) == value


@pytest.mark.parametrize("setting", REFUSED)
def test_a_setting_that_the_memory_was_made_without_stops_the_start(folder, setting, capsys):
    file = write(folder, setting, REFUSED[setting])
    refused = pytest.raises(InputError, match=r"memory 'default' was made with .* leave it out")
    with refused as caught, served(load_config(file, {}).config):
        pass
    assert setting.split(".")[0] in str(caught.value)
    assert shown(file, setting, capsys)["from"] == "the memory 'default'"
    assert shown(file, setting, capsys)["said"] == json.loads(REFUSED[setting])


def test_texts_that_a_memory_was_made_without_are_explained(folder, capsys):
    file = write(folder, "keep_text", "true")
    with served(load_config(file, {}).config) as http:
        assert http.get("/v1/memory/default").json()["keep_text"] is False
    assert shown(file, "keep_text", capsys) == {"value": False, "from": "the memory 'default'", "said": True}
    assert run(["config", "--config", str(file)]) == 0
    assert "it goes on as it was made" in " ".join(capsys.readouterr().out.split())


def test_a_peer_whose_upstream_was_removed_is_explained_once(folder, caplog):
    file = write(folder, "log", '"json"')
    file.write_text(file.read_text().replace('"ann"', '"bob"'))
    with caplog.at_level("INFO", "sigma_mem.serve"), served(load_config(file, {}).config) as http:
        assert http.get("/v1/memory/default").json()["peers"] == ["ann", "bob"]
    told = [record.fields for record in caplog.records if record.getMessage() == "setting"]
    assert [each["name"] for each in told] == ["peer ann"]
    assert "never asked" in told[0]["because"]


def test_a_file_of_keys_without_a_key_is_explained(key_file, caplog):
    with served(keys=str(key_file)) as http:
        assert http.get("/v1/memory").status_code == 401
    (told,) = [record for record in caplog.records if record.getMessage() == "setting"]
    assert (told.levelname, told.fields["name"]) == ("WARNING", "keys")


def test_a_new_memory_is_made_with_the_settings(tmp_path):
    file = tmp_path / "sigma-mem.toml"
    file.write_text(
        'encoder = "hashed"\ntrusted = ["ci"]\nkeep_text = true\n'
        f'[memory]\ndecay = "time"\nhalf_life = 60\n{UPSTREAMS}'
    )
    with served(load_config(file, {"SIGMA_MEM_MEMORY_HORIZONS": "0.9,0.99"}).config) as http:
        made = http.get("/v1/memory/default").json()
        settings = made["settings"]
        assert (made["encoder"]["name"], made["keep_text"]) == ("hashed", True)
        assert (settings["trusted"], settings["half_life"]) == (["ci"], 60.0)
        assert settings["horizons"] == [0.9, 0.99]


def test_the_page_has_every_setting():
    spec = importlib.util.spec_from_file_location("settings_table", DOCS / "hooks" / "settings.py")
    hook = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hook)
    text = hook.PAGE.read_text(encoding="utf-8")
    assert hook.page(text) == text, "run: python docs/hooks/settings.py"
