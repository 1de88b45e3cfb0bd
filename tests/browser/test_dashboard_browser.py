"""The dashboard in a real Chromium: what a person sees equals the API, and nothing else is asked for."""

import httpx2
import pytest

from browser.conftest import serving_wheel
from browser.streams import ATTACK
from sigma_mem.serve.keys import add_key

VIEWS = ("trust", "topics", "relation", "cost", "decisions", "inbox", "sources")
BASE = "/v1/memory/default"


@pytest.fixture(scope="module")
def peers(service):
    return service.get(BASE).json()["peers"]


def show(page, service, view, argument=""):
    page.goto(f"{str(service.base_url).rstrip('/')}/dashboard/#/default/{view}{argument}")
    page.wait_for_selector(f"main[data-shown={view}]")


def cells(page, table):
    """The rows of a table by their first cell, as text."""
    rows = page.eval_on_selector_all(
        f"#{table} tbody tr",
        "rows => rows.map(row => [...row.cells].map(cell => cell.innerText.trim()))",
    )
    return {flat(row[0]): row[1:] for row in rows}


def flat(text):
    """As a browser shows it: every run of spaces and line ends is one space."""
    return " ".join(text.split())


def questions(decisions):
    return [flat(decision["question"]) for decision in decisions]


def percent(value):
    return f"{100 * value:.1f} %"


def test_the_wheel_carries_the_description_and_its_examples(service):
    routed = service.get("/openapi.json").json()["paths"]["/v1/memory/{namespace}/route"]["post"]
    assert routed["requestBody"]["content"]["application/json"]["example"]["question"]


def test_trust_and_drift_are_those_of_the_api(page, service, peers):
    show(page, service, "trust")
    seen, overall = cells(page, "trust-table"), service.post(f"{BASE}/trust", json={}).json()["peers"]
    trend = service.get(f"{BASE}/trend").json()["trends"]
    assert list(seen) == sorted(overall, key=lambda peer: -overall[peer]["prob"])
    for peer, (prob, _, labels, last, recent, _) in seen.items():
        assert prob == percent(overall[peer]["prob"])
        assert labels == str(overall[peer]["labels"])
        assert last != "never"
        assert recent == percent(trend[peer][-1]["right"])
    (drift,) = service.get(f"{BASE}/drift").json()["drift"]
    assert [peer for peer, row in seen.items() if row[-1] != "no"] == [drift["peer"]]
    assert seen[drift["peer"]][-1].startswith(f"{percent(drift['was'])} → {percent(drift['now'])}")
    assert page.locator("figure svg .mark").count() == 1
    assert page.locator("figure svg .line").count() == len(peers)
    points = page.locator("figure svg .line").first.get_attribute("points").split()
    assert len(points) == len(trend[next(iter(seen))])


def test_the_heatmap_is_the_table_of_the_api(page, service, peers):
    show(page, service, "topics")
    seen, table = cells(page, "heatmap"), service.post(f"{BASE}/trust", json={}).json()
    assert len(table["topics"]) >= 3
    for peer in peers:
        expected = [
            table["peers"][peer],
            *(table["topics"][topic][peer] for topic in sorted(table["topics"])),
        ]
        assert [cell.split("\n")[0].split(" %")[0] for cell in seen[peer]] == [
            percent(each["prob"]).split(" %")[0] for each in expected
        ]


def test_relation_and_cost_are_those_of_the_api(page, service, peers):
    show(page, service, "relation")
    seen, found = cells(page, "relation-table"), service.get(f"{BASE}/relation").json()
    for i, peer in enumerate(peers):
        numbers = [float(cell.replace("−", "-")) for cell in seen[peer]]
        assert numbers == pytest.approx(found["matrix"][i], abs=6e-4)
    assert f"worth {found['votes']:.2f} independent" in page.inner_text("#votes")
    page.uncheck(f"#agreement input[value='{peers[-1]}']")
    page.wait_for_selector(f"#votes:has-text('{len(peers) - 1} peers')")
    votes = service.get(f"{BASE}/relation", params={"peer": peers[:-1]}).json()["votes"]
    assert f"worth {votes:.2f} independent" in page.inner_text("#votes")
    show(page, service, "cost")
    spent = service.get(f"{BASE}/spent").json()["by_peer"]
    assert {peer: float(row[-1]) for peer, row in cells(page, "cost-table").items()} == pytest.approx(spent)
    assert page.locator("svg circle.dot").count() == len(peers)


def test_a_decision_is_explained_as_by_the_api(page, service, peers):
    show(page, service, "decisions")
    made = service.get(f"{BASE}/decisions", params={"last": 25}).json()["decisions"]
    assert list(cells(page, "decisions-table")) == questions(made)
    page.click(f"#decisions-table a[href$='{made[3]['id']}']")
    page.wait_for_selector("main[data-shown=decision]")
    assert flat(page.inner_text("#question")) == flat(made[3]["question"])
    weights = cells(page, "weights-table")
    for peer, prob in made[3]["probs"].items():
        row = weights.get(peer) or weights[f"{peer} (chosen)"]
        assert row[2] == percent(prob)
    assert f"{made[3]['peer']} (chosen)" in weights
    for peer in (made[3]["peer"], next(peer for peer in peers if peer != made[3]["peer"])):
        page.select_option("#explained", peer)
        page.wait_for_selector(f"text={peer} was right about")
        asked = {"decision": made[3]["id"], "peer": peer, "top": 12}
        told = service.get(f"{BASE}/explain", params=asked).json()
        terms = cells(page, "terms-table")
        assert list(terms)[:-1] == questions(told["contributions"])
        assert list(terms)[-1] == f"{told['others']} other events"


def test_decisions_are_searched_and_paged(page, service):
    show(page, service, "decisions")
    page.click("#older")
    page.wait_for_selector("#newer:enabled")
    made = service.get(f"{BASE}/decisions", params={"last": 50}).json()["decisions"]
    assert list(cells(page, "decisions-table")) == questions(made[25:])
    words = made[40]["question"][:60]
    page.fill("#search-text", words)
    page.keyboard.press("Enter")
    found = service.get(f"{BASE}/decisions", params={"last": 25, "text": words}).json()["decisions"]
    page.locator("#decisions-table tbody tr").nth(len(found)).wait_for(state="detached")
    assert list(cells(page, "decisions-table")) == questions(found)


def test_what_models_wrote_is_text(page, service):
    for view in ("decisions", "inbox"):
        show(page, service, view)
        assert ATTACK in page.inner_text("main")
        assert page.locator("main img, main script").count() == 0
    page.click("text=why >> nth=0")
    page.wait_for_selector("main[data-shown=decision]")
    assert page.inner_text("#question").startswith(ATTACK)
    assert page.evaluate("document.body.dataset.attacked") is None


def test_an_event_is_labelled_by_keyboard_and_a_source_is_revoked(page, service, peers):
    first, second = peers[:2]
    show(page, service, "inbox")
    waiting = service.get(f"{BASE}/unlabelled").json()["decisions"][-1]
    card = page.locator(f"form[data-event='{waiting['event']}']")
    card.locator(f"input[name='{first}'][value='']").focus()
    page.keyboard.press("ArrowRight")  # from "no label" around to "right"
    assert card.locator(f"input[name='{first}'][value=right]").is_checked()
    card.locator(f"input[name='{second}'][value=wrong]").check()
    card.locator("button").press("Enter")
    page.wait_for_selector(f"#message:has-text('Recorded for {first}, {second}')")
    labels = service.get(f"{BASE}/decision", params={"id": waiting["id"]}).json()["labels"]
    assert labels == {first: 1.0, second: -1.0}
    card.wait_for(state="detached")
    show(page, service, "sources")
    (source,) = service.get(f"{BASE}/sources").json()["sources"]
    assert cells(page, "sources-table")[source["name"]][0] == str(source["lines"])
    page.on("dialog", lambda dialog: dialog.accept())
    for button, revoked in (("Revoke", True), ("Let count again", False)):
        page.click(f"#sources-table button:has-text('{button}')")
        page.wait_for_selector(f"#sources-table td:text-is('{'revoked' if revoked else 'trusted'}')")
        assert service.get(f"{BASE}/sources").json()["sources"][0]["revoked"] is revoked


def test_the_page_follows_the_memory(page, service, peers):
    show(page, service, "trust")
    before = service.get(BASE).json()["events"]
    assert f"after {before} events" in page.inner_text(".lead")
    asked = {"question": "One more?", "answers": {peers[0]: "1", peers[1]: "2"}}
    service.post(f"{BASE}/vote", json=asked).raise_for_status()
    page.wait_for_selector(f"text=after {before + 1} events")


@pytest.mark.parametrize("address", ["#/default/constructor", "#/%E0%A4%A/x", "#/nobody/trust", "#"])
def test_an_address_that_names_nothing_shows_trust(page, service, address):
    page.goto(f"{str(service.base_url).rstrip('/')}/dashboard/{address}")
    page.wait_for_selector("#trust-table")


@pytest.mark.parametrize("view", VIEWS)
def test_a_phone_needs_no_sideways_scrolling_and_every_control_has_a_name(page, service, view):
    page.set_viewport_size({"width": 360, "height": 740})
    show(page, service, view)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    nameless = """nodes => nodes.filter(node =>
        !(node.labels?.length || node.ariaLabel || node.innerText?.trim())).map(node => node.outerHTML)"""
    assert page.eval_on_selector_all("input, select, button, a, summary", nameless) == []
    assert page.eval_on_selector_all("svg.chart", "nodes => nodes.filter(n => !n.ariaLabel).length") == 0
    assert page.locator("h1").count() == page.locator("main").count() == 1


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_fault(page, service, scheme):
    from axe_playwright_python.sync_playwright import Axe

    page.emulate_media(color_scheme=scheme)
    only = {"runOnly": ["color-contrast"]} if scheme == "dark" else {}  # the rest is the same in both
    made = service.get(f"{BASE}/decisions").json()["decisions"][3]["id"]
    for view, argument in [*((view, "") for view in VIEWS), ("decision", f"/{made}")]:
        show(page, service, view, argument)
        faults = Axe().run(page, options={"resultTypes": ["violations"], **only}).response["violations"]
        assert [(fault["id"], fault["nodes"][0]["html"]) for fault in faults] == [], view


def test_the_page_asks_for_a_key_and_keeps_it_in_the_tab(browser, wheel, tmp_path):
    installed, _ = wheel
    file = tmp_path / "keys.json"
    root = add_key(file, "root", {"*": "admin"}, 0.0)
    flags = ("--keys", str(file))
    with serving_wheel(installed, tmp_path / "memory.db", *flags) as url, browser.new_context() as context:
        asked = {"peers": ["ann", "bob"], "encoder": "hashed"}
        known = {"authorization": f"Bearer {root}"}
        httpx2.put(f"{url}{BASE}", json=asked, headers=known).raise_for_status()
        page = context.new_page()
        page.goto(f"{url}/dashboard/")
        page.wait_for_selector("#key-dialog[open]")
        assert page.locator("main *").count() == 0
        page.fill("#key-value", root)
        page.keyboard.press("Enter")
        page.wait_for_selector("#trust-table")
        page.reload()
        page.wait_for_selector("#trust-table")
        other = context.new_page()
        other.goto(f"{url}/dashboard/")
        other.wait_for_selector("#key-dialog[open]")


def test_a_number_that_stands_for_an_answer_is_not_shown_as_one(browser, wheel, tmp_path):
    installed, _ = wheel
    with (
        serving_wheel(installed, tmp_path / "memory.db", keep_text=False) as url,
        httpx2.Client(base_url=url) as http,
        browser.new_context() as context,
    ):
        http.put("/v1/memory/default", json={"peers": ["ann", "bob", "cyd"], "encoder": "hashed"})
        body = {"question": "which?", "answers": {"ann": "41", "bob": "42", "cyd": "42"}}
        made = http.post("/v1/memory/default/vote", json=body).json()
        page = context.new_page()
        page.goto(f"{url}/dashboard/#/default/inbox")
        page.wait_for_selector(".answer")
        shown = page.locator(".answer").all_text_contents()
        assert shown == [f"answer {n}, text not kept" for n in (1, 2, 2)]
        page.goto(f"{url}/dashboard/#/default/decision/{made['id']}")
        page.wait_for_selector("#outcome-table")
        assert "answer 2, text not kept" in page.locator("#outcome-table").inner_text()
