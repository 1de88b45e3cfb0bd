"""Every registered route, without a key and with each role; and a route that declares none."""

import pytest
from fastapi import APIRouter
from starlette.routing import Mount, Route

from serve.conftest import bearer, served
from sigma_mem.errors import InputError, SigmaMemError
from sigma_mem.serve import app as service
from sigma_mem.serve.config import RequestLimits, ServerConfig, Upstream
from sigma_mem.serve.guard import RoleGate
from sigma_mem.serve.keys import add_key

RANKS = {"nobody": 0, "read": 1, "write": 2, "admin": 3}
OPEN = {"/", "/docs", "/healthz", "/readyz", "/dashboard"}  # the only routes that anybody may call


def routes(http):
    """Every route that there is: its path, a method of it, its access."""
    for route in http.app.routes:
        assert isinstance(route, Route | Mount)
        assert isinstance(route.app, RoleGate)
        for method in sorted(getattr(route, "methods", None) or {"GET", "POST"}):
            if method != "HEAD":
                yield route.path, method, route.app.access


def call(http, path, method, namespace, key=None):
    url = (
        path.format(namespace=namespace) if "{namespace}" in path else path.replace("{", "x").replace("}", "")
    )
    return http.request(method, url, headers={} if key is None else bearer(key), json={})


@pytest.fixture
def everything(keys, key_file, tmp_path):
    """A service with all its parts: an upstream brings the gateway to life."""
    upstreams = (Upstream(name="ann", base_url="http://127.0.0.1:1/v1", timeout=0.2),)
    limits = RequestLimits(refused_rate=0.0)
    with served(keys=str(key_file), upstreams=upstreams, namespace="mine", limits=limits) as http:
        yield http


def test_every_route_refuses_who_has_no_key(everything):
    found = list(routes(everything))
    assert len(found) > 25
    assert ("/mcp", "POST") in [(path, method) for path, method, _ in found]
    assert {path for path, _, access in found if access.role == "nobody"} == OPEN
    for path, method, _ in found:
        for key in (None, "sm-wrong", ""):
            status = call(everything, path, method, "mine", key).status_code
            assert (status == 401) == (path not in OPEN), (path, method, status)


@pytest.mark.parametrize("role", ["read", "write", "admin"])
def test_every_route_lets_through_its_role_and_no_weaker_one(everything, keys, role):
    for path, method, access in routes(everything):
        enough = RANKS[role] >= RANKS[access.role] and not access.everywhere
        status = call(everything, path, method, "mine", keys[role]).status_code
        assert (status not in (401, 403)) == (enough or path in OPEN), (path, method, status)
        assert status != 500, (path, method)
        if access.everywhere:
            assert call(everything, path, method, "mine", keys["root"]).status_code == 200
        if "{namespace}" in path:  # another namespace is not there, for whoever may not read it
            refused = 403 if access.everywhere else 404
            assert call(everything, path, method, "theirs", keys[role]).status_code == refused, (path, method)


def test_a_route_without_a_role_stops_the_start(monkeypatch):
    async def endpoint() -> str:
        return "for everyone"

    forgotten = APIRouter()
    forgotten.add_api_route("/forgotten", endpoint)
    monkeypatch.setattr(service, "gateway_router", lambda context: forgotten)
    with pytest.raises(SigmaMemError, match="'/forgotten' declares no role"):
        service.create_app(ServerConfig())
    mounted = APIRouter()
    mounted.mount("/mcp", lambda scope, receive, send: None)
    monkeypatch.setattr(service, "gateway_router", lambda context: mounted)
    with pytest.raises(SigmaMemError, match="'/mcp' declares no role"):
        service.create_app(ServerConfig())


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"host": "192.0.2.1"}, "others can reach it"),
        ({"host": "::"}, "others can reach it"),
        ({"host": "example.org"}, "others can reach it"),
        (
            {"upstreams": (Upstream(name="ann", base_url="https://example.org/v1", key_env="ANN_KEY"),)},
            "an upstream or a judge has a key",
        ),
    ],
)
def test_it_does_not_start_where_anybody_could_call(options, why, tmp_path, monkeypatch):
    monkeypatch.setenv("ANN_KEY", "secret")
    for keys in (None, str(tmp_path / "absent.json")):
        with pytest.raises(InputError, match=why):
            service.create_app(ServerConfig(**options, keys=keys))


def test_an_address_for_everyone_needs_names(key_file, keys):
    with pytest.raises(InputError, match="SIGMA_MEM_ALLOWED_HOSTS="):
        service.create_app(ServerConfig(host="0.0.0.0", keys=str(key_file)))
    service.create_app(ServerConfig(host="0.0.0.0", keys=str(key_file), allowed_hosts=("mem.example.org",)))


def test_a_key_of_an_upstream_must_be_there(key_file, keys, monkeypatch):
    monkeypatch.delenv("ANN_KEY", raising=False)
    upstream = Upstream(name="ann", base_url="https://example.org/v1", key_env="ANN_KEY")
    with pytest.raises(InputError, match=r"\$ANN_KEY, which is not set"):
        service.create_app(ServerConfig(upstreams=(upstream,), keys=str(key_file)))


def test_an_empty_file_of_keys_opens_nothing(tmp_path):
    """On loopback, too: who names a file of keys wants keys."""
    with served(keys=str(tmp_path / "absent.json")) as http:
        assert http.get("/v1/memory").status_code == 401
        assert http.get("/healthz").status_code == 200


def test_a_key_works_at_once_and_stops_when_it_is_removed(key_file, keys, monkeypatch):
    from sigma_mem.serve.keys import KeyRing, remove_key

    now = [0.0]
    ring = KeyRing(key_file, clock=lambda: now[0])
    late = add_key(key_file, "late", {"mine": "read"}, 0.0)
    now[0] = 1.1
    assert ring.find(late).name == "late"
    remove_key(key_file, "late")
    now[0] = 2.2
    assert ring.find(late) is None
    assert ring.find(keys["read"]).grants == {"mine": "read"}
