"""The dashboard without a browser: its files, their headers, and the reads that only it needs."""

import os
import re
import tomllib
from contextlib import suppress
from fnmatch import fnmatch
from pathlib import Path

import httpx2
import numpy as np
import openai
import pytest

from serve.conftest import bearer, served
from serve.gateway.conftest import ASK, starter
from serve.gateway.upstreams import fails, says
from sigma_mem.errors import StoreError
from sigma_mem.serve.config import AlarmSettings, Upstream

ROOT = Path(__file__).parents[2]
STATIC = ROOT / "src" / "sigma_mem" / "serve" / "dashboard" / "static"
FILES = {file.name: file.read_bytes() for file in STATIC.iterdir()}
KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
BASE = "/v1/memory/default"
SVG = "http://www.w3.org/2000/svg"  # the name of a vocabulary, which nobody loads


@pytest.fixture(scope="module")
def taught():
    """Three peers, of whom ann is always right, bob never, and cyd every second time."""
    with served(keep_text=True, peers=["ann", "bob", "cyd"]) as http:
        for i in range(24):
            answers = {"ann": str(i), "bob": str(i + 1), "cyd": str(i + i % 2)}
            made = http.post(f"{BASE}/vote", json={"question": f"What is {i}?", "answers": answers}).json()
            if i < 20:
                labels = {peer: answer == str(i) for peer, answer in answers.items()}
                assert http.post(
                    f"{BASE}/feedback", json={"decision": made["id"], "labels": labels}
                ).is_success
        yield http


def test_every_file_is_public_and_under_a_strict_policy(locked_service):
    for path, kind in [
        ("/dashboard/", ".html"),
        *((f"/dashboard/{name}", name[name.rfind(".") :]) for name in FILES),
    ]:
        response = locked_service.get(path)
        assert response.status_code == 200, path
        assert response.headers["content-type"] == KINDS[kind]
        policy = dict(
            part.strip().split(" ", 1) for part in response.headers["content-security-policy"].split(";")
        )
        assert policy["default-src"] == "'none'"
        assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
        assert policy["frame-ancestors"] == policy["base-uri"] == "'none'"
        assert "unsafe" not in str(policy)
        assert response.headers["x-content-type-options"] == "nosniff"
    assert locked_service.get("/dashboard", follow_redirects=False).headers["location"] == "/dashboard/"


def test_a_page_without_a_key_loads_all_its_files_at_once(locked_service):
    """They are more than the guesses at a key that are allowed in a second."""
    for _ in range(3):
        assert {locked_service.get(f"/dashboard/{name}").status_code for name in FILES} == {200}
    statuses = [locked_service.get("/v1/memory").status_code for _ in range(40)]
    assert 429 in statuses


@pytest.mark.parametrize("name", ["nothing.js", "..%2ffiles.py", "%2e%2e", "files.py"])
def test_no_other_file_is_served(locked_service, name):
    assert locked_service.get(f"/dashboard/{name}").status_code == 404


def test_the_wheel_carries_every_file():
    with (ROOT / "pyproject.toml").open("rb") as file:
        patterns = tomllib.load(file)["tool"]["setuptools"]["package-data"]["sigma_mem"]
    for name in FILES:
        assert any(fnmatch(f"serve/dashboard/static/{name}", pattern) for pattern in patterns), name


def test_every_file_that_is_named_is_there():
    for name, content in FILES.items():
        text = content.decode()
        for other in re.findall(r'(?:from "\./|src="|href=")([\w.-]+)"', text):
            assert other in FILES, (name, other)


@pytest.mark.parametrize("name", sorted(FILES))
def test_nothing_is_loaded_from_elsewhere_and_nothing_is_inline(name):
    text = FILES[name].decode().replace(SVG, "")
    assert not re.search(r"https?:|[\"'(]//|@import|url\(", text)
    if name.endswith(".html"):
        assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)|javascript:", text)


@pytest.mark.parametrize("name", sorted(name for name in FILES if name.endswith(".js")))
def test_no_script_reads_text_as_markup_or_code(name):
    words = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|\beval\b|new Function|srcdoc"
    assert not re.search(
        words + r"|setHTML|createContextualFragment|localStorage|\.cookie", FILES[name].decode()
    )


def test_trends_end_at_the_share_of_the_last_labels(taught):
    body = taught.get(f"{BASE}/trend", params={"window": 10, "points": 7}).json()
    assert body["window"] == 10
    for peer, right in {"ann": 1.0, "bob": 0.0, "cyd": 0.5}.items():
        curve = body["trends"][peer]
        assert len(curve) == 7
        assert curve[-1]["right"] == pytest.approx(right)
        assert all(0.0 <= p["interval"][0] <= p["right"] + 1e-9 for p in curve)
        assert all(p["right"] - 1e-9 <= p["interval"][1] <= 1.0 for p in curve)
        assert [p["time"] for p in curve] == sorted(p["time"] for p in curve)
        assert body["span"][0] <= curve[0]["time"] <= curve[-1]["time"] <= body["span"][1]


def test_a_trend_can_be_of_one_topic():
    with served(peers=["ann", "bob"]) as http:
        for topic, right in (("sums", True), ("sums", True), ("names", False)):
            task = {"question": f"A task of {topic}", "topic": topic}
            made = http.post(f"{BASE}/route", json=task).json()["id"]
            assert http.post(f"{BASE}/feedback", json={"decision": made, "labels": {"ann": right}}).is_success
        sums, names = (http.get(f"{BASE}/trend", params={"topic": t}).json() for t in ("sums", "names"))
        assert [point["right"] for point in sums["trends"]["ann"]] == [1.0, 1.0]
        assert [point["right"] for point in names["trends"]["ann"]] == [0.0]
        assert sums["events"] == 2


def test_nothing_is_claimed_from_nothing():
    with served(peers=["ann", "bob"]) as http:
        assert http.get(f"{BASE}/relation").json()["votes"] is None
        found = http.get(f"{BASE}/overview").json()
        assert found["memory"]["total"] == {"events": 0, "right": 0, "wrong": 0, "paid": 0, "cost": 0.0}
        assert http.get(f"{BASE}/unlabelled").json()["decisions"] == []
        trend = http.get(f"{BASE}/trend").json()
        assert (trend["span"], set(trend["trends"])) == (None, {"ann", "bob"})


def test_the_report_is_that_of_the_memory():
    with served(peers=["ann", "bob"]) as http:
        assert http.get(f"{BASE}/report").json() == {"compared": []}
        for i in range(12):
            made = http.post(f"{BASE}/route", json={"question": f"What is {i}?", "topic": "sums"}).json()
            http.post(f"{BASE}/served", json={"decision": made["id"], "peer": "ann" if i % 2 else "bob"})
            label = {"decision": made["id"], "labels": {"ann" if i % 2 else "bob": bool(i % 2)}}
            assert http.post(f"{BASE}/feedback", json=label).is_success
        total, sums = http.get(f"{BASE}/report").json()["compared"]
        assert (total["topic"], sums["topic"], total["requests"]) == (None, "sums", 12)
        assert 0 < total["elsewhere"] < 12
        assert total["right_before"] == pytest.approx(0.5)
        assert total["right_after"] > 0.8
        low, high = total["right_after_interval"]
        assert 0.0 <= low < total["right_after"] <= high <= 1.0
        assert http.get(f"{BASE}/report", params={"hours": 1e-9}).json() == {"compared": []}


def test_the_relation_is_that_of_the_memory(taught):
    body = taught.get(f"{BASE}/relation").json()
    assert body["peers"] == ["ann", "bob", "cyd"]
    matrix = np.array(body["matrix"])
    assert (matrix == matrix.T).all()
    assert (matrix.diagonal() == 1.0).all()
    assert matrix[0, 1] < 0.0  # ann is right whenever bob is wrong
    assert 1.0 <= body["votes"] <= 3.0
    assert body["together"] == [[20] * 3] * 3
    assert body["errors"]["events"] == 20
    assert body["errors"]["correlation"][0] == [1.0, None, None]  # ann and bob never vary
    assert [line["accuracy"] for line in body["errors"]["peers"]][:2] == [1.0, 0.0]
    assert body["errors"]["best"] == 1.0
    refused = taught.get(f"{BASE}/relation", params={"peer": "nobody"})
    assert (refused.status_code, "expected one of" in refused.json()["error"]["message"]) == (400, True)


def test_an_agreement_is_worth_nothing_known_until_peers_were_labelled_on_the_same_tasks():
    with served(peers=["ann", "bob"]) as http:
        for i in range(20):
            made = http.post(f"{BASE}/route", json={"question": f"What is {i}?"}).json()["id"]
            label = {"decision": made, "labels": {"ann" if i % 2 else "bob": i % 3 > 0}}
            assert http.post(f"{BASE}/feedback", json=label).is_success
        body = http.get(f"{BASE}/relation").json()
        assert body["votes"] is None
        assert body["together"] == [[10, 0], [0, 10]]
        assert http.get(f"{BASE}/relation", params={"peer": "ann"}).json()["votes"] == 1.0


def test_errors_are_compared_only_if_every_answer_has_a_label():
    """Who labels served answers only labels equal ones, which would seem to err together."""
    with served(peers=["ann", "bob"]) as http:
        for i in range(30):
            answers = {"ann": "1", "bob": "1" if i % 3 else "2"}
            made = http.post(f"{BASE}/vote", json={"question": f"{i}?", "answers": answers}).json()
            labels = {"ann": i % 2 == 0} | ({"bob": i % 2 == 0} if i % 3 else {})
            assert http.post(f"{BASE}/feedback", json={"decision": made["id"], "labels": labels}).is_success
        errors = http.get(f"{BASE}/relation").json()["errors"]
        assert errors["events"] == 20


def test_the_overview_counts_what_was_decided_labelled_and_spent():
    with served(currency="EUR", alarms=AlarmSettings(daily_budget=4.0), peers=["ann", "bob"]) as http:
        assert http.post(f"{BASE}/prices", json={"peer": "ann", "per_call": 0.5}).is_success
        for i in range(6):
            asked = {"question": f"{i}?", "answers": {"ann": "1", "bob": "1"}}
            made = http.post(f"{BASE}/vote", json=asked).json()
            if i < 3:
                said = {"decision": made["id"], "labels": {made["peer"]: i > 0}}
                assert http.post(f"{BASE}/feedback", json=said).is_success
        assert http.post(f"{BASE}/vote", json={"question": 3}).status_code == 422
        found = http.get(f"{BASE}/overview").json()
        total = {"events": 6, "right": 2, "wrong": 1, "paid": 6, "cost": 3.0}
        assert found["memory"]["total"] == total
        for name, amount in total.items():
            assert sum(part[name] for part in found["memory"]["bins"]) == pytest.approx(amount)
        assert found["memory"]["peers"]["ann"]["cost"] == 3.0
        assert (found["memory"]["spent"]["today"], found["memory"]["budget"]) == (3.0, 4.0)
        assert found["memory"]["spent"]["total"] == http.get(f"{BASE}/spent").json()["total"]
        assert [change["text"] for change in found["memory"]["changes"]] == ["prices were set: ann"]
        service = found["service"]
        assert (service["requests"], service["refused"], service["errors"]) == (12, 1, 0)
        assert 0.0 < service["median"] <= service["p95"] < 60.0
        assert sum(part["requests"] for part in service["bins"]) == service["requests"]
        assert http.get(f"{BASE}/overview", params={"hours": 1e-9}).json()["memory"]["total"]["events"] == 0
        assert http.get("/v1/memory").json() == {
            "namespaces": ["default"],
            "roles": {"default": "admin"},
            "currency": "EUR",
        }


def test_nobody_is_advised_to_remove_a_peer_whose_upstream_is_down():
    with served(peers=["ann", "bob"]) as http:
        for _ in range(200):
            assert http.post(f"{BASE}/route", json={"question": "Who?", "explore": False}).is_success

        def advised():
            return [
                text for text in http.get(f"{BASE}/overview").json()["memory"]["advice"] if "'bob'" in text
            ]

        assert "chosen in none of the last" in advised()[0]
        http.portal.call(http.context.alarms.say, "circuit", "", "bob", "bob failed")
        assert advised() == []


def test_the_overview_is_there_while_the_store_is_away():
    with served(upstreams=(Upstream(name="ann", base_url="http://127.0.0.1:9/v1"),)) as http:
        memory = http.portal.call(http.context.memories.get, "default")
        http.portal.call(
            memory.lose, StoreError("the disk is full; make room")
        )  # it looks again in half a second
        found = http.get(f"{BASE}/overview").json()
        assert found["memory"] is None
        assert found["service"]["away"] is True
        assert [alarm["kind"] for alarm in found["service"]["alarms"]] == ["store"]
        assert http.get("/v1/memory").json()["namespaces"] == ["default"]
        assert list(found["service"]["upstreams"]) == ["ann"]


@pytest.mark.parametrize("streams", [False, True])
def test_the_overview_has_the_latency_of_every_upstream(streams):
    peers = {"slow": says("391", seconds=0.3), "quick": says("391"), "broken": fails()}
    with starter() as start:
        gateway = start(peers)
        for name in peers:
            client = gateway.client.chat.completions
            with suppress(openai.InternalServerError):
                asked = client.create(model=name, messages=ASK, stream=streams)
                assert list(asked)
        found = httpx2.get(f"{gateway.url}/v1/memory/default/overview").json()["service"]
    slow, quick, broken = (found["upstreams"][name] for name in peers)
    assert 0.25 < slow["median"] <= slow["p95"] < 30.0
    assert 0.0 < quick["median"] <= quick["p95"]
    assert (broken["failed"], broken["median"], broken["p95"]) == (1, None, None)
    assert found["process"] is None


def test_a_process_that_shares_its_memory_names_itself_on_the_overview(postgres):
    with served(path=postgres, peers=["ann"]) as http:
        found = http.get(f"{BASE}/overview").json()["service"]
        assert found["process"].endswith(f"/{os.getpid()}")


def test_a_key_of_one_namespace_sees_nothing_of_the_service(locked_service, keys):
    own = locked_service.get("/v1/memory/mine/overview", headers=bearer(keys["read"])).json()
    assert own["service"] is None
    assert own["memory"]["total"]["events"] == 0
    everything = locked_service.get("/v1/memory/mine/overview", headers=bearer(keys["root"])).json()
    assert everything["service"]["upstreams"] == {}
    assert locked_service.get("/v1/memory", headers=bearer(keys["write"])).json()["roles"] == {
        "mine": "write"
    }


def test_the_inbox_holds_events_without_labels_until_they_get_one(taught):
    def waiting(**options):
        found = taught.get(f"{BASE}/unlabelled", params=options).json()
        return [decision["question"] for decision in found["decisions"]], found

    questions, found = waiting(newest=True)
    assert questions == [f"What is {i}?" for i in (23, 22, 21, 20)]
    assert found["weight"] == 1.0
    second = found["decisions"][1]
    assert second["answers"] == {"ann": "22", "bob": "23", "cyd": "22"}
    said = {"decision": second["id"], "labels": {"ann": True}}
    assert taught.post(f"{BASE}/feedback", json=said).is_success
    assert waiting(newest=True)[0] == [f"What is {i}?" for i in (23, 21, 20)]
    assert waiting(newest=True, last=1)[0] == ["What is 23?"]
    assert waiting(below=0.0)[0] == []
    _, found = waiting()
    values = [sum(x * x for x in found["moves"][made["event"]].values()) for made in found["decisions"]]
    assert values == sorted(values, reverse=True)
    assert all(0.0 < x < 0.5 for moves in found["moves"].values() for x in moves.values())
