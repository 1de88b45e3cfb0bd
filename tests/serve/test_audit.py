"""Who wrote what: the source of feedback is the key, and every write has a line."""

import json

from serve.conftest import bearer


def test_the_source_is_the_key_and_never_the_body(locked_service, keys):
    made = locked_service.post(
        "/v1/memory/mine/route", json={"question": "x"}, headers=bearer(keys["write"])
    ).json()
    body = {"decision": made["id"], "labels": {"ann": True}}
    for lie in ({"source": "root"}, {"key": "root"}):
        sent = locked_service.post(
            "/v1/memory/mine/feedback", json={**body, **lie}, headers=bearer(keys["write"])
        )
        assert sent.status_code == 422
    sent = locked_service.post("/v1/memory/mine/feedback", json=body, headers=bearer(keys["write"]))
    assert sent.json()["source"] == "write"
    other = locked_service.post(
        "/v1/memory/mine/feedback", json={**body, "labels": {"bob": False}}, headers=bearer(keys["admin"])
    )
    assert other.json()["source"] == "admin"


def test_every_write_has_a_line_and_no_line_has_a_key(locked_service, keys, tmp_path):
    def post(path, body, role):
        sent = locked_service.post(f"/v1/memory/mine/{path}", json=body, headers=bearer(keys[role]))
        assert sent.is_success, sent.text
        return sent.json()

    decision = post("route", {"question": "x"}, "write")["id"]
    post("feedback", {"decision": decision, "labels": {"ann": True}}, "write")
    post("feedback/batch", {"items": [{"decision": decision, "labels": {"bob": 0.5}}]}, "write")
    post("peers", {"peer": "new\nline\x1b[31m"}, "admin")
    post("revoke", {"source": "write"}, "admin")
    text = (tmp_path / "audit.jsonl").read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    assert [(line["key"], line["action"], line["namespace"]) for line in lines] == [
        ("root", "create", "mine"),
        ("root", "create", "theirs"),
        ("write", "feedback", "mine"),
        ("write", "feedback", "mine"),
        ("admin", "add_peer", "mine"),
        ("admin", "revoke", "mine"),
    ]
    assert lines[2]["labels"] == {"ann": 1.0}
    assert text.isascii()
    assert "\x1b" not in text
    assert not any(key in text for key in keys.values())


def test_feedback_that_is_refused_has_no_line(locked_service, keys, tmp_path):
    before = (tmp_path / "audit.jsonl").read_text()
    sent = locked_service.post(
        "/v1/memory/mine/feedback",
        json={"decision": "nope", "labels": {"ann": True}},
        headers=bearer(keys["write"]),
    )
    assert sent.status_code == 404
    assert (tmp_path / "audit.jsonl").read_text() == before
