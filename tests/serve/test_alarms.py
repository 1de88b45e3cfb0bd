"""Alarms: what rings, whom it names, and what webhooks get."""

import hmac
import logging
import time
from base64 import b64decode, b64encode
from hashlib import sha256

import pytest

from serve.conftest import bearer, served
from serve.gateway.conftest import ask, starter
from serve.gateway.upstreams import says, send_json, upstream, wait_until
from sigma_mem.errors import InputError
from sigma_mem.serve.config import AlarmSettings, Webhook
from sigma_mem.serve.keys import add_key

SECRET = "whsec_" + b64encode(b"a secret of tests").decode()
QUESTION = "What is 17 * 23?"


async def fails_first(server, body, writer):
    send_json(writer, {}, "500 Internal Server Error" if len(server.requests) == 1 else "200 OK")


@pytest.fixture
def log():
    """Alarms in the log, by kind."""
    records, handler, logger = [], logging.Handler(), logging.getLogger("sigma_mem.serve")
    handler.emit = records.append
    level = logger.level
    logger.setLevel(logging.INFO)  # which also forgets what was enabled before
    logger.addHandler(handler)
    yield lambda kind: [r.fields for r in records if r.msg == "alarm" and r.fields["kind"] == kind]
    logger.removeHandler(handler)
    logger.setLevel(level)


def test_a_peer_that_changed_rings_once_signed_and_retried(log, monkeypatch):
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    with upstream(fails_first) as taken:
        hooks = (Webhook(taken.url, "HOOK_SECRET"), Webhook(taken.url, "HOOK_SECRET", ("budget",)))
        with served(webhooks=hooks, alarms=AlarmSettings(every=0.2), peers=["ann", "bob"]) as http:
            for number in range(160):
                made = http.post("/v1/memory/default/route", json={"question": f"{QUESTION} {number}"}).json()
                labels = {"ann": number < 100, "bob": number % 2 == 0}
                sent = {"decision": made["id"], "labels": labels}
                assert http.post("/v1/memory/default/feedback", json=sent).is_success
            wait_until(lambda: len(taken.requests) >= 2, 15.0)
            time.sleep(0.5)
            assert 'sigma_mem_alarms_total{kind="drift"} 1.0' in http.get("/metrics").text
            assert 'sigma_mem_webhooks_total{outcome="delivered"} 1.0' in http.get("/metrics").text
    (_, first, said), (_, second, again) = taken.requests
    assert said == again
    assert first["webhook-id"] == second["webhook-id"]
    assert (said["type"], said["data"]["about"]) == ("sigma_mem.drift", "ann")
    (line,) = log("drift")
    assert line["about"] == "ann"
    signed = f"{second['webhook-id']}.{second['webhook-timestamp']}.".encode() + taken.raw[1]
    expected = hmac.new(b64decode(SECRET.removeprefix("whsec_")), signed, sha256).digest()
    assert second["webhook-signature"] == f"v1,{b64encode(expected).decode()}"


def test_a_source_that_turned_and_spending_over_the_budget_ring(log, key_file):
    keys = {name: add_key(key_file, name, {"*": "admin"}, 0.0) for name in ("ci", "judge")}
    alarms = AlarmSettings(every=0.1, daily_budget=1.0)
    with served(keys=str(key_file), trusted=("ci",), alarms=alarms) as http:

        def post(what, key="ci", **sent):
            response = http.post(f"/v1/memory/default/{what}", json=sent, headers=bearer(keys[key]))
            assert response.is_success, response.text
            return response.json()

        made = {"peers": ["ann", "bob"], "encoder": "hashed"}
        assert http.put("/v1/memory/default", json=made, headers=bearer(keys["ci"])).is_success
        post("prices", peer="ann", per_call=0.02)
        for number in range(120):
            decision = post("vote", question=f"{QUESTION} {number}", answers={"ann": "1", "bob": "2"})["id"]
            right = number % 3 == 0
            honest = number < 40
            labels = {"ann": right is honest, "bob": right is not honest}
            post("feedback", "judge", decision=decision, labels=labels)  # before the source that is trusted
            post("feedback", decision=decision, labels={"ann": right, "bob": not right})
            if number == 39:
                assert log("source") == []
        wait_until(lambda: log("source") and log("budget"), 15.0)
    assert [line["about"] for line in log("source")] == ["judge"]
    assert len(log("budget")) == 1


def test_a_webhook_without_its_secret_stops_the_start(monkeypatch):
    monkeypatch.delenv("HOOK_SECRET", raising=False)
    with (
        pytest.raises(InputError, match=r"\$HOOK_SECRET"),
        served(webhooks=(Webhook("http://h/", "HOOK_SECRET"),)),
    ):
        pass


def test_the_log_warns_of_a_store_that_is_away_with_the_reason_and_when_it_is_back(tmp_path, caplog):
    file, away = tmp_path / "memory.db", tmp_path / "away.db"
    with caplog.at_level("INFO", "sigma_mem.serve"), starter() as start:
        gateway = start({"ann": says("391")}, path=str(file))
        ask(gateway)
        file.rename(away)
        ask(gateway)
        wait_until(lambda: any("memory.db" in r.fields.get("error", "") for r in caplog.records), 15.0)
        away.rename(file)
        wait_until(lambda: any(r.msg == "alarm over" for r in caplog.records), 15.0)
    assert all(r.levelname == "WARNING" for r in caplog.records if r.msg == "alarm" or r.fields.get("away"))
