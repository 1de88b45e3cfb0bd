"""PostgreSQL behind an address that takes connections and statements and never answers."""

import socket
import threading
import time
from contextlib import contextmanager, suppress
from types import SimpleNamespace

import httpx2 as httpx

from serve.gateway.conftest import ASK, starter
from serve.gateway.upstreams import says


@contextmanager
def relay(folder, target):
    """A socket in front of a server's; after `silent.set()` nothing that comes in goes on, either way."""
    listener, silent, opened = socket.socket(socket.AF_UNIX), threading.Event(), []
    listener.bind(str(folder / ".s.PGSQL.5432"))
    listener.listen(64)

    def pump(source, to):
        with suppress(OSError):
            while data := source.recv(65536):
                if silent.is_set():
                    return  # and both sides stay open
                to.sendall(data)
            to.shutdown(socket.SHUT_WR)

    def accept():
        with suppress(OSError):
            while True:
                client, server = listener.accept()[0], socket.socket(socket.AF_UNIX)
                opened.extend((client, server))
                if not silent.is_set():
                    server.connect(target)
                    for ends in ((client, server), (server, client)):
                        threading.Thread(target=pump, args=ends, daemon=True).start()

    def speak():
        for each in opened:
            each.close()
        silent.clear()

    threading.Thread(target=accept, daemon=True).start()
    yield SimpleNamespace(silent=silent, speak=speak)
    speak()
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()


def test_the_gateway_serves_while_the_database_swallows_everything(postgres, tmp_path):
    real = postgres.partition("host=")[2].partition("&")[0]
    with relay(tmp_path, f"{real}/.s.PGSQL.5432") as line, starter() as start:
        gateway = start({"ann": says("391")}, path=postgres.replace(real, str(tmp_path)))

        def ask():
            began = time.monotonic()
            body = {"model": "sigma-mem", "messages": ASK}
            response = httpx.post(f"{gateway.url}/v1/chat/completions", json=body, timeout=60.0)
            return response, time.monotonic() - began

        assert "x-sigma-mem-unrecorded" not in ask()[0].headers
        line.silent.set()
        (first, seconds), *others = [ask() for _ in range(4)]
        assert seconds < 15.0
        assert all(seconds < 2.0 for _, seconds in others)
        for response, _ in ((first, seconds), *others):
            assert response.status_code == 200
            assert response.headers["x-sigma-mem-unrecorded"] == "queued"
        line.speak()
        deadline = time.monotonic() + 30
        while "sigma_mem_store_up 1.0" not in httpx.get(f"{gateway.url}/metrics").text:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        found = httpx.get(f"{gateway.url}/v1/memory/default/decisions").json()["decisions"]
        assert len(found) == 5
