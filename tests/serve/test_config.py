"""The configuration: what goes before what, where a value came from, and what is refused."""

import json

import pytest

from sigma_mem.cli.app import run
from sigma_mem.errors import InputError
from sigma_mem.serve.config import JudgeSettings, RequestLimits, ServerConfig, Upstream, Webhook, load_config


def test_flags_go_before_environment_before_file_before_defaults(tmp_path):
    file = tmp_path / "sigma-mem.toml"
    file.write_text('host = "127.0.0.2"\nport = 1\npath = "file.db"\n[limits]\nbatch = 7\nrate = 2\n')
    loaded = load_config(
        file,
        {"SIGMA_MEM_PORT": "2", "SIGMA_MEM_PATH": "env.db", "SIGMA_MEM_LIMITS_BATCH": "9"},
        {"path": "flag.db", "host": None},
    )
    config = loaded.config
    assert (config.host, config.port, config.path) == ("127.0.0.2", 2, "flag.db")
    assert config.limits == RequestLimits(batch=9, rate=2.0)
    assert [
        loaded.origins[name] for name in ("host", "port", "path", "log", "limits.batch", "limits.rate")
    ] == [
        "sigma-mem.toml",
        "environment SIGMA_MEM_PORT",
        "--path",
        "default",
        "environment SIGMA_MEM_LIMITS_BATCH",
        "sigma-mem.toml",
    ]


def test_without_anything_it_is_the_default(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert load_config(None, {}).config == ServerConfig()
    assert not ServerConfig().needs_keys
    assert ServerConfig(judges=(JudgeSettings("big", "http://h/v1", key_env="BIG_KEY"),)).needs_keys


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("prot = 1", "sets prot"),
        ('port = "x"', "port"),
        ("port = 70000", "70000"),
        ("port = 1.5", "port"),
        ("keep_text = 1", "keep_text"),
        ("allowed_hosts = [1]", "allowed_hosts.*valid string"),
        ("allowed_hosts = 1", "allowed_hosts.*valid array"),
        ("[memory]\ngama = 0.9", "memory.gama"),
        ("[memory]\ngamma = 1.5", "gamma is 1.5"),
        ('encoder = "mine"', "encoder"),
        ('on_store_failure = "pray"', "'serve' or 'refuse'"),
        ("[alarms]\nevery = 0", "alarms.every"),
        ('[[webhooks]]\nurl = "ftp://h"\nsecret_env = "S"', "webhook"),
        ('log = "xml"', "'json', 'text' or 'off'"),
        ("[limits]\nbach = 1", "limits.bach"),
        ("[limits]\nbatch = 0", "limits.batch .* greater than or equal to 1"),
        ('[[upstreams]]\nname = "a"', "without base_url"),
        ('[[judges]]\nname = "a"', "judges without base_url"),
        ('[[upstreams]]\nname = "a"\nbase_url = "http://h/v1"\nkey = "secret"', "key_env"),
        ('[[upstreams]]\nname = "a"\nbase_url = "http://h/v1"\nprize = 1', "upstreams.prize"),
        ('upstreams = ["a"]', "expected a table"),
        ('usual = "nobody"', "usual peer"),
        ('mode = "perhaps"', "mode"),
        ('[[topics]]\nname = "law"\nmode = "off"', "law"),
        ('[[topics]]\nname = "law"', "mode"),
        ("switch_margin = 2.0", "switch_margin"),
        ('signals = ["rephrased", "guessed"]', "signals"),
        (
            '[[upstreams]]\nname = "a"\nbase_url = "http://h/v1"\nprotocols = ["telnet"]',
            "'chat', 'messages' or",
        ),
        ('[[upstreams]]\nname = "a"\nbase_url = "http://h/v1"\nprotocols = []', "protocols"),
        ('[[upstreams]]\nname = "a"\nbase_url = "http://h/v1"\ntimeout = 0', "timeout .* greater than 0"),
        ("= 1", "not TOML"),
    ],
)
def test_a_file_that_is_wrong_is_refused_in_one_line(tmp_path, text, message):
    file = tmp_path / "sigma-mem.toml"
    file.write_text(text)
    with pytest.raises(InputError, match=message) as caught:
        load_config(file, {})
    assert "\n" not in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "ftp://host/v1",
        "http://",
        "host/v1",
        "http://user:secret@host/v1",
        "http://169.254.169.254/latest",
        "http://[fe80::1]/v1",
        "http://0.0.0.0/v1",
        "http://[::ffff:169.254.169.254]/v1",
        "http://169.254.169.254./v1",
        "http://2852039166/v1",
        "http://0xa9.0376.43518/v1",
        "http://a b/v1",
        "http://host:99999/v1",
        "http://host:port/v1",
        "http://host/v1?key=secret",
    ],
)
def test_addresses_that_no_model_has_are_refused(url):
    with pytest.raises(InputError, match="base_url"):
        Upstream(name="ann", base_url=url)


@pytest.mark.parametrize("name", ["", "sigma-mem", "sigma-mem/vote", "a b", "<b>", "x" * 200])
def test_names_of_upstreams_are_plain_and_not_the_memorys(name):
    with pytest.raises(InputError, match="name"):
        Upstream(name=name, base_url="http://host/v1")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ServerConfig(port=70_000), "port is 70000"),
        (lambda: ServerConfig(encoder="mine"), "encoder is 'mine'.*hashed"),
        (lambda: ServerConfig(signals=("guessed",)), "signals"),
        (lambda: RequestLimits(batch=0), "limits.batch is 0"),
        (lambda: Upstream("ann", "http://h/v1", worth=0.0), "worth of 'ann' is 0.0"),
        (lambda: Upstream("ann", "http://h/v1", input_price=float("nan")), "input_price of 'ann'"),
        (lambda: Upstream("ann", "http://h/v1", key_env="sk-secret"), "key_env of 'ann'"),
        (lambda: Webhook("http://h", "S", kinds=("rain",)), "webhook's kinds"),
        (
            lambda: ServerConfig(upstreams=(Upstream("low", "http://host/v1", like="large"),)),
            "like 'large'; expected another one of",
        ),
    ],
)
def test_values_that_programs_make_are_checked_too(make, message):
    with pytest.raises(InputError, match=message) as caught:
        make()
    assert "secret" not in str(caught.value)


def test_a_key_is_taken_from_the_environment_only():
    upstream = Upstream(name="ann", base_url="http://host/v1", key_env="ANN_KEY")
    assert upstream.key({"ANN_KEY": " secret \n"}) == "secret"
    assert "secret" not in repr(upstream)
    with pytest.raises(InputError, match=r"\$ANN_KEY"):
        upstream.key({"ANN_KEY": ""})
    assert Upstream(name="bob", base_url="http://host/v1").key({}) is None


def test_the_commands(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run(["keys", "add", "ci", "--keys", "keys.json", "--namespace", "a,b", "--json"]) == 0
    key = json.loads(capsys.readouterr().out)["key"]
    assert run(["keys", "list", "--keys", "keys.json", "--json"]) == 0
    out = capsys.readouterr().out
    assert json.loads(out)["keys"][0]["grants"] == {"a": "write", "b": "write"}
    assert key not in out
    (tmp_path / "sigma-mem.toml").write_text('keys = "keys.json"\n')
    assert run(["keys", "remove", "ci"]) == 0
    assert run(["keys", "remove", "ci"]) == 2
    monkeypatch.setenv("SIGMA_MEM_PORT", "9")
    assert run(["config", "--host", "::1", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert shown["port"] == {"value": 9, "from": "environment SIGMA_MEM_PORT"}
    assert shown["host"] == {"value": "::1", "from": "--host"}
    assert shown["keys"]["from"] == "sigma-mem.toml"
    assert run(["serve", "--host", "192.0.2.1", "--port", "0"]) == 2
    assert "no file of keys" not in capsys.readouterr().err
    assert run(["config"]) == 0
    assert "API keys are required: keys is set (sigma-mem.toml)" in capsys.readouterr().out
    (tmp_path / "sigma-mem.toml").unlink()
    assert run(["config"]) == 0
    assert "API keys are not required: it listens on loopback" in capsys.readouterr().out
    (tmp_path / "sigma-mem.toml").write_text(
        '[[upstreams]]\nname = "ann"\nbase_url = "https://models.test/v1"\nmodel = "large"\n'
        'key_env = "ANN_KEY"\noutput_price = 2\n'
    )
    monkeypatch.setenv("COLUMNS", "200")
    for key, state in (("", "NOT SET"), ("sk-secret", "set")):
        monkeypatch.setenv("ANN_KEY", key)
        assert run(["config"]) == 0
        out = capsys.readouterr().out
        shown = "https://models.test/v1, model large, timeout 60 s, 0/2 for a million tokens in/out"
        assert f"{shown}, key in $ANN_KEY, {state}" in out
        assert "sk-secret" not in out
        assert "API keys are required: an upstream has a key" in out
