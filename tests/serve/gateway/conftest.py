"""A gateway on a free port of loopback, and upstreams behind it."""

import asyncio
import functools
import socket
import ssl
import threading
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace

import anthropic
import openai
import pytest
import uvicorn

from serve.gateway.upstreams import says, speaks, upstream
from sigma_mem.serve.app import create_app
from sigma_mem.serve.config import ServerConfig, Upstream
from sigma_mem.serve.server import BoundedProtocol

ASK = [{"role": "user", "content": "What is 17 * 23?"}]


def ask(gateway, model="sigma-mem", **options):
    """One question, whole answer; `options` are those of the field `sigma_mem`."""
    return gateway.client.chat.completions.create(
        model=model, messages=ASK, extra_body={"sigma_mem": options}
    )


def memory_of(gateway, namespace="default"):
    return asyncio.run(gateway.context.memories.get(namespace)).mem


@contextmanager
def serving(app, limits=None):
    """An application behind uvicorn, in a thread; gives its address. With limits, it may be any of ASGI."""
    listening = socket.create_server(("127.0.0.1", 0))
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # as `sigma-mem serve` does
    bounded = functools.partial(BoundedProtocol, limits=limits or app.state.context.config.limits)
    lifespan = "on" if limits is None else "off"
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan=lifespan, http=bounded))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            thread.join(0.01)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(20)
        listening.close()
        assert not thread.is_alive()


@contextmanager
def starter():
    with ExitStack() as stack:

        def begin(behaviours, *, peers=None, upstreams=(), **config):
            servers = {name: stack.enter_context(upstream(behave)) for name, behave in behaviours.items()}
            known = [Upstream(**other) for other in upstreams] + [
                Upstream(name=name, base_url=server.url, **({"timeout": 5.0} | (peers or {}).get(name, {})))
                for name, server in servers.items()
            ]
            app = create_app(ServerConfig(upstreams=tuple(known), port=0, log="off", **config))
            url = stack.enter_context(serving(app))
            client = stack.enter_context(
                openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=120.0)
            )
            create, raw = client.chat.completions.create, client.chat.completions.with_raw_response.create

            def claude(**options):
                given = {"api_key": "none", **options}
                return stack.enter_context(anthropic.Anthropic(base_url=url, max_retries=0, **given))

            return SimpleNamespace(
                url=url,
                client=client,
                create=create,
                raw=raw,
                claude=claude,
                context=app.state.context,
                servers=servers,
            )

        yield begin


@pytest.fixture(scope="session", autouse=True)
def _one_tls_context():
    """Reading the machine's certificates takes longer than most tests, and nothing here speaks TLS."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ssl, "create_default_context", functools.cache(ssl.create_default_context))
        yield


@pytest.fixture
def start():
    """Start a gateway over upstreams: `start({"ann": behave})`; `start.fresh()` for one that ends early."""
    with starter() as begin:
        begin.fresh = starter
        yield begin


@pytest.fixture(scope="module")
def three():
    """One upstream for each protocol, for tests that do not ask what was learned before."""
    peers = {spoken: {"protocols": (spoken,)} for spoken in ("chat", "messages", "responses")}
    with starter() as begin:
        yield begin({spoken: speaks(spoken, "391") for spoken in peers}, peers=peers)


@pytest.fixture(scope="module")
def shared():
    """A gateway over two peers that work, for tests that do not ask what it learned before."""
    with starter() as begin:
        yield begin({"ann": says("391"), "bob": says("381")})
