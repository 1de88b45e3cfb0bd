"""What one key or tenant does leaves the others alone."""

import pytest

from serve.conftest import bearer, served
from sigma_mem.serve import panels
from sigma_mem.serve.keys import add_key


@pytest.fixture
def tenants(tmp_path):
    """A service with two namespaces, and two keys that write in the first and one in the second."""
    file = tmp_path / "keys.json"
    grants = {
        "root": {"*": "admin"},
        "alice": {"a": "write"},
        "mallory": {"a": "write"},
        "bob": {"b": "write"},
    }
    keys = {name: add_key(file, name, of, 0.0) for name, of in grants.items()}
    with served(keys=str(file)) as http:

        def call(who, path, body, **headers):
            return http.post(f"/v1/memory/{path}", json=body, headers=bearer(keys[who]) | headers)

        for name in "ab":
            body = {"peers": ["p", "q"], "encoder": "hashed"}
            assert http.put(f"/v1/memory/{name}", json=body, headers=bearer(keys["root"])).is_success
        yield call


def test_a_key_cannot_take_or_change_the_ids_of_another(tenants):
    made = [tenants("alice", "a/route", {"question": f"q{n}"}).json()["id"] for n in range(4)]

    def said(who, decision, labels, id, **more):
        body = {"decision": decision, "labels": labels, **more}
        return tenants(who, "a/feedback", body, **{"idempotency-key": id})

    assert said("mallory", made[0], {"q": True}, "run-7").is_success
    assert said("alice", made[1], {"p": True}, "run-7").is_success
    assert said("mallory", made[2], {"q": True}, "run-7", amend=True).is_success
    assert said("alice", made[1], {"p": True}, "run-7").is_success  # an honest retry
    batch = {"items": [{"decision": made[3], "labels": {"q": True}, "id": "alice:run-8"}]}
    assert "feedback" in tenants("mallory", "a/feedback/batch", batch).json()["results"][0]
    assert said("alice", made[3], {"p": True}, "run-8").is_success


def test_answers_of_peers_that_are_not_there_are_refused_before_they_are_compared(tenants, monkeypatch):
    monkeypatch.setattr("sigma_mem.session.sigma.prepare_answers", None)  # what takes long
    answers = {f"k{n}": "abc"[n % 3] for n in range(6_000)}
    refused = tenants("alice", "a/decide", {"question": "?", "answers": answers})
    assert refused.status_code == 400
    assert "is not in the pool" in refused.json()["error"]["message"]


def test_panels_of_one_tenant_do_not_push_out_those_of_another(tenants, monkeypatch):
    monkeypatch.setattr(panels, "_MOST", 3)
    first = tenants("alice", "a/ask", {"question": "mine"}).json()["panel"]
    theirs = tenants("bob", "b/ask", {"question": "mine"}).json()["panel"]
    for n in range(5):
        assert tenants("mallory", "a/ask", {"question": f"another {n}"}).is_success
    answer = {"peer": "p", "answer": "1"}
    assert tenants("bob", "b/ask/add", {"panel": theirs, **answer}).is_success
    assert tenants("alice", "a/ask/add", {"panel": first, **answer}).status_code == 404


def test_long_questions_of_open_panels_are_bounded(tenants, monkeypatch):
    monkeypatch.setattr(panels, "_MOST_CHARACTERS", 10_000)
    opened = [tenants("alice", "a/ask", {"question": 6_000 * letter}).json()["panel"] for letter in "xyz"]
    answer = {"peer": "p", "answer": "1"}
    statuses = [tenants("alice", "a/ask/add", {"panel": each, **answer}).status_code for each in opened]
    assert statuses == [404, 404, 200]
