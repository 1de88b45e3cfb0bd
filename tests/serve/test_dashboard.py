"""The dashboard without a browser: its files, their headers, and the reads that only it needs."""

import re
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import numpy as np
import pytest

from serve.conftest import bearer, served
from sigma_mem.serve.dashboard.files import CONTENT_TYPES, page_files

ROOT = Path(__file__).parents[2]
FILES = page_files()
SVG = "http://www.w3.org/2000/svg"  # the name of a vocabulary, which nobody loads


@pytest.fixture(scope="module")
def taught():
    """Three peers, of whom ann is always right, bob never, and cyd every second time."""
    with served(keep_text=True) as http:
        base = "/v1/memory/default"
        assert http.put(base, json={"peers": ["ann", "bob", "cyd"], "encoder": "hashed"}).is_success
        for i in range(24):
            answers = {"ann": str(i), "bob": str(i + 1), "cyd": str(i + i % 2)}
            made = http.post(f"{base}/vote", json={"question": f"What is {i}?", "answers": answers}).json()
            if i < 20:
                labels = {peer: answer == str(i) for peer, answer in answers.items()}
                assert http.post(
                    f"{base}/feedback", json={"decision": made["id"], "labels": labels}
                ).is_success
        yield http


def test_every_file_is_public_and_under_a_strict_policy(locked_service):
    for path, kind in [
        ("/dashboard/", ".html"),
        *((f"/dashboard/{name}", name[name.rfind(".") :]) for name in FILES),
    ]:
        response = locked_service.get(path)
        assert response.status_code == 200, path
        assert response.headers["content-type"] == CONTENT_TYPES[kind]
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


@pytest.mark.parametrize("name", ["nothing.js", "..%2ffiles.py", "%2e%2e", "files.py", "index.html/"])
def test_no_other_file_is_served(locked_service, name):
    assert locked_service.get(f"/dashboard/{name}").status_code == 404


def test_the_wheel_carries_every_file():
    with (ROOT / "pyproject.toml").open("rb") as file:
        patterns = tomllib.load(file)["tool"]["setuptools"]["package-data"]["sigma_mem"]
    on_disk = {
        path.name for path in (ROOT / "src/sigma_mem/serve/dashboard/static").iterdir() if path.is_file()
    }
    assert on_disk == set(FILES)
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
    body = taught.get("/v1/memory/default/trend", params={"window": 10, "points": 7}).json()
    assert body["window"] == 10
    for peer, right in {"ann": 1.0, "bob": 0.0, "cyd": 0.5}.items():
        curve = body["trends"][peer]
        assert len(curve) == 7
        assert curve[-1]["right"] == pytest.approx(right)
        assert all(0.0 <= p["interval"][0] <= p["right"] + 1e-9 for p in curve)
        assert all(p["right"] - 1e-9 <= p["interval"][1] <= 1.0 for p in curve)
        assert [p["place"] for p in curve] == sorted({p["place"] for p in curve})
        assert curve[-1]["place"] < body["events"]


def test_the_relation_is_that_of_the_memory(taught):
    body = taught.get("/v1/memory/default/relation").json()
    assert body["peers"] == ["ann", "bob", "cyd"]
    matrix = np.array(body["matrix"])
    assert (matrix == matrix.T).all()
    assert (matrix.diagonal() == 1.0).all()
    assert matrix[0, 1] < 0.0  # ann is right whenever bob is wrong
    assert 1.0 <= body["votes"] <= 3.0


def test_the_inbox_holds_events_without_labels_until_they_get_one(taught):
    def waiting():
        found = taught.get("/v1/memory/default/unlabelled").json()["decisions"]
        return [decision["question"] for decision in found], found

    assert waiting()[0] == [f"What is {i}?" for i in (23, 22, 21, 20)]
    second = waiting()[1][1]
    said = {"decision": second["id"], "labels": {"ann": True}}
    assert taught.post("/v1/memory/default/feedback", json=said).is_success
    assert waiting()[0] == [f"What is {i}?" for i in (23, 21, 20)]
    last = taught.get("/v1/memory/default/unlabelled", params={"last": 1}).json()["decisions"]
    assert [decision["question"] for decision in last] == ["What is 23?"]


def test_an_empty_memory_has_every_view(open_service):
    base = "/v1/memory/default"
    trend = open_service.get(f"{base}/trend").json()
    assert set(trend["trends"]) >= {"ann", "bob"}
    assert open_service.get(f"{base}/relation").is_success
    assert open_service.get(f"{base}/unlabelled").is_success


def test_the_reads_need_a_key_and_are_documented(locked_service, keys):
    paths = locked_service.get("/openapi.json", headers=bearer(keys["root"])).json()["paths"]
    for name in ("trend", "relation", "unlabelled"):
        assert locked_service.get(f"/v1/memory/mine/{name}").status_code == 401
        assert locked_service.get(f"/v1/memory/mine/{name}", headers=bearer(keys["read"])).status_code == 200
        assert f"/v1/memory/{{namespace}}/{name}" in paths
    assert not [path for path in paths if path.startswith("/dashboard")]
