"""Namespaces do not see each other: whatever is written in one, every read in another stays what it was."""

import json

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from serve.conftest import bearer, served
from sigma_mem.serve.keys import add_key

NAMES = ("red", "blue")
PEERS = ["ann", "bob"]
words = st.sampled_from(["red apple", "blue sky", "17 * 23?", "who?"])
names = st.sampled_from(NAMES)


def machine(http, keys):
    """Two tenants with keys of their own, in one service and one store."""

    class Tenants(RuleBasedStateMachine):
        decisions = Bundle("decisions")

        def __init__(self):
            super().__init__()
            self.run = machine.count = getattr(machine, "count", 0) + 1
            self.secrets = {name: set() for name in NAMES}
            self.seen = {}
            self.revoked = set()

        def space(self, name):
            return f"{name}-{self.run}"

        def send(self, name, method, path, who=None, **options):
            url = f"/v1/memory/{self.space(name)}{path}"
            return http.request(method, url, headers=bearer(keys[who or name]), **options)

        @initialize()
        def make(self):
            for name in NAMES:
                body = {"peers": PEERS, "encoder": "hashed"}
                assert self.send(name, "PUT", "", "root", json=body).is_success
                self.seen[name] = self.reads(name)

        def reads(self, name):
            """Everything that can be read of a namespace."""
            paths = ["", "/decisions?last=1000", "/sources", "/drift"]
            found = [self.send(name, "GET", path) for path in paths]
            assert all(each.is_success for each in found)
            return [each.json() for each in found]

        def changed(self, name, id=None):
            self.seen[name] = self.reads(name)
            self.secrets[name].add(id)

        @rule(target=decisions, name=names, question=words, answers=st.booleans())
        def decide(self, name, question, answers):
            body = {"question": f"{question} of {name}"}
            if answers:
                body |= {"answers": {"ann": name, "bob": "other"}}
            made = self.send(name, "POST", "/decide" if answers else "/route", json=body).json()
            self.changed(name, made["id"])
            return name, made["id"]

        @rule(decision=decisions, name=names, right=st.booleans())
        def label(self, decision, name, right):
            owner, id = decision
            body = {"decision": id, "labels": {"ann": right}, "amend": True}
            sent = self.send(name, "POST", "/feedback", json=body)
            usual = 200 if name == owner else 404
            assert sent.status_code == (400 if name in self.revoked else usual)
            if name == owner:
                self.changed(name)

        @rule(
            decision=decisions,
            name=names,
            what=st.sampled_from(["decision?id", "labels?decision", "explain?decision"]),
        )
        def look(self, decision, name, what):
            owner, id = decision
            sent = self.send(name, "GET", f"/{what}={id}")
            assert sent.status_code == (200 if name == owner else 404)
            if name != owner:
                assert f"of {owner}" not in sent.text

        @rule(name=names, undo=st.booleans())
        def revoke(self, name, undo):
            body = {"source": name}
            assert self.send(name, "POST", "/revoke", "root", json={**body, "undo": undo}).is_success
            (self.revoked.discard if undo else self.revoked.add)(name)
            self.changed(name)

        @rule(name=names)
        def continue_another_event(self, name):
            other = next(each for each in NAMES if each != name)
            for id in self.secrets[other] - {None}:
                sent = self.send(name, "POST", "/route", json={"after": id})
                assert sent.status_code == 404

        @rule(name=names, what=st.sampled_from(["", "/decisions", "/sources", "/drift"]))
        def use_the_others_key(self, name, what):
            other = next(each for each in NAMES if each != name)
            assert self.send(name, "GET", what, who=other).status_code == 404
            listed = http.get("/v1/memory", headers=bearer(keys[name])).json()["namespaces"]
            assert all(each.startswith(name) for each in listed)

        @invariant()
        def no_read_changed_but_by_its_own_writes(self):
            for name, before in self.seen.items():
                now = self.reads(name)
                assert now == before
                other = next(each for each in NAMES if each != name)
                assert not any(id in json.dumps(now) for id in self.secrets[other] - {None})

    return Tenants


def test_no_read_crosses(tmp_path):
    runs = range(1, 5000)
    keys = {
        name: add_key(tmp_path / "keys.json", name, {f"{name}-{run}": "write" for run in runs}, 0.0)
        for name in NAMES
    }
    keys["root"] = add_key(tmp_path / "keys.json", "root", {"*": "admin"}, 0.0)
    options = {"keys": str(tmp_path / "keys.json"), "path": str(tmp_path / "memory.db"), "keep_text": True}
    with served(**options) as http:
        profile = settings(max_examples=max(settings().max_examples // 10, 3), stateful_step_count=12)
        run_state_machine_as_test(machine(http, keys), settings=profile)
