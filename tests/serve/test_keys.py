"""API keys: what is kept of them, what they open, and that every write has a line with its key."""

import json
import os
import stat
from threading import Barrier, Thread

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from serve.conftest import bearer
from sigma_mem.errors import InputError
from sigma_mem.serve.keys import ROLES, KeyRing, Principal, add_key, read_keys, remove_key


def test_the_file_holds_no_key_and_nobody_else_may_read_it(tmp_path):
    path = tmp_path / "keys.json"
    key = add_key(path, "ci", {"default": "write"}, 12.0)
    assert len(key) > 40
    assert key not in path.read_text()
    assert key[3:] not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    (kept,) = read_keys(path)
    assert (kept.name, dict(kept.grants), kept.created) == ("ci", {"default": "write"}, 12.0)


@settings(max_examples=15)
@given(data=st.data())
def test_only_the_whole_key_opens(tmp_path_factory, data):
    """No prefix, no suffix, no other case: the hash is of all of it (CVE-2026-35030)."""
    path = tmp_path_factory.mktemp("keys") / "keys.json"
    key = add_key(path, "ci", {"*": "read"}, 0.0)
    add_key(path, "other", {"*": "read"}, 0.0)
    ring = KeyRing(path)
    assert ring.find(key).name == "ci"
    place = data.draw(st.integers(0, len(key) - 1))
    for wrong in (
        key[:place],
        key[place + 1 :],
        key + "x",
        key.swapcase(),
        key[:place] + "*" + key[place + 1 :],
    ):
        assert ring.find(wrong) is None


def test_a_role_may_what_weaker_ones_may():
    for i, held in enumerate(ROLES):
        who = Principal("x", {"mine": held})
        assert [who.may(role, "mine") for role in ROLES] == [j <= i for j in range(3)]
        assert not any(who.may(role, "theirs") for role in ROLES)
        assert not any(who.may(role, "*") for role in ROLES)
        assert all(Principal("x", {"*": held}).may(role, "any") for role in ROLES[: i + 1])


@pytest.mark.parametrize("name", ["", "default", "agreement", "a b", "<b>", "x" * 65, "-x", "ä"])
def test_names_are_plain(tmp_path, name):
    with pytest.raises(InputError, match="name"):
        add_key(tmp_path / "keys.json", name, {"*": "read"}, 0.0)


def test_a_name_is_used_once_and_a_role_is_one_of_three(tmp_path):
    path = tmp_path / "keys.json"
    add_key(path, "ci", {"*": "read"}, 0.0)
    with pytest.raises(InputError, match="already"):
        add_key(path, "ci", {"*": "admin"}, 0.0)
    with pytest.raises(InputError, match="role"):
        add_key(path, "root", {"*": "owner"}, 0.0)
    with pytest.raises(InputError, match="no role"):
        add_key(path, "root", {}, 0.0)
    with pytest.raises(InputError, match="is named"):
        remove_key(path, "root")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root writes for others")
def test_a_file_that_root_writes_belongs_to_the_service_whose_it_was(tmp_path):
    folder = tmp_path / "state"
    folder.mkdir()
    os.chown(folder, 10001, 10002)
    for name in ("first", "second"):
        add_key(folder / "keys.json", name, {"*": "read"}, 0.0)
        found = (folder / "keys.json").stat()
        assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (10001, 10002, 0o600)


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"keys": [1]}', '{"keys": [{"name": "x"}]}', "\xff"])
def test_a_damaged_file_is_refused(tmp_path, text):
    path = tmp_path / "keys.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError, match="not a file of keys"):
        KeyRing(path)


def test_two_changes_at_once_both_count(tmp_path):
    path = tmp_path / "keys.json"
    for name in ("leaked", "other"):
        add_key(path, name, {"*": "read"}, 0.0)
    for round_ in range(10):
        both = Barrier(2)

        def changed(change, *arguments, both=both):
            both.wait()
            change(path, *arguments)

        threads = [
            Thread(target=changed, args=(remove_key, "leaked")),
            Thread(target=changed, args=(add_key, f"new-{round_}", {"*": "read"}, 0.0)),
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        names = [key.name for key in read_keys(path)]
        assert "leaked" not in names
        assert f"new-{round_}" in names
        add_key(path, "leaked", {"*": "read"}, 0.0)


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
