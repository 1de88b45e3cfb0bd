"""The dashboard in a real Chromium: what a person sees equals the API, and nothing else is asked for."""

import httpx2
import pytest

from browser.conftest import serving_wheel
from browser.streams import ATTACK
from sigma_mem.serve.keys import add_key

VIEWS = ("overview", "inbox", "decisions", "trust", "topics", "relation", "cost", "sources", "report")
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


def test_the_report_is_that_of_the_api(page, service):
    show(page, service, "report")
    found = service.get(f"{BASE}/report").json()["compared"]
    rows = cells(page, "report-table")
    assert len(rows) == len(found)
    for each in found:
        row = rows[each["topic"] or "all requests"]
        assert [int(cell.replace(",", "")) for cell in row[:3]] == [
            each["requests"],
            each["elsewhere"],
            each["untried"],
        ]
        assert row[4].startswith(percent(each["right_after"]))


def test_the_overview_is_that_of_the_api(page, service, peers):
    show(page, service, "overview")
    page.click("#pause")
    found = service.get(f"{BASE}/overview").json()
    total, spent = found["memory"]["total"], found["memory"]["spent"]
    tile = {
        name: page.inner_text(f"#{name} dd") for name in ("decided", "labelled", "right", "spent", "errors")
    }
    labelled = total["right"] + total["wrong"]
    assert tile["decided"].startswith(str(total["events"]))
    assert tile["labelled"].startswith(percent(labelled / total["events"]))
    assert tile["right"].startswith(percent(total["right"] / labelled))
    assert float(tile["spent"].split()[0]) == pytest.approx(total["cost"], rel=1e-3)
    assert f"in all {spent['total']:.4g}" in tile["spent"]
    rows = cells(page, "peers-table")
    for peer in peers:
        own = found["memory"]["peers"][peer]
        assert [int(cell) for cell in rows[peer][:3]] == [own["events"], own["right"], own["wrong"]]
        assert float(rows[peer][3]) == pytest.approx(own["cost"], rel=1e-3)
    (drift,) = service.get(f"{BASE}/drift").json()["drift"]
    warning = page.inner_text("#warnings .card")
    assert f"{drift['peer']} became worse: {percent(drift['was'])} → {percent(drift['now'])}" in warning
    assert page.locator("rect.right").count()
    assert page.locator("rect.wrong").count()
    wrong = page.locator("#peers-table a.wrong").first
    count = int(wrong.inner_text())
    wrong.click()
    page.wait_for_selector("main[data-shown=decisions]")
    assert page.locator("#decisions-table tbody tr").count() == min(count, 25)
    assert set(page.locator("#decisions-table td:nth-child(5)").all_inner_texts()) == {"wrong"}


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
    assert list(seen) == ["all tasks", *sorted(table["topics"])]
    for topic, row in seen.items():
        expected = table["topics"].get(topic, table["peers"])
        assert [cell.split(" %")[0] for cell in row] == [
            percent(expected[peer]["prob"]).split(" %")[0] for peer in peers
        ]


def test_relation_and_cost_are_those_of_the_api(page, service, peers):
    show(page, service, "relation")
    seen, found = cells(page, "relation-table"), service.get(f"{BASE}/relation").json()
    errors = cells(page, "errors-table")
    for i, peer in enumerate(peers):
        for table, matrix, digits in (
            (seen, found["matrix"], 6e-4),
            (errors, found["errors"]["correlation"], 6e-3),
        ):
            shown = [float(cell.replace("−", "-")) for j, cell in enumerate(table[peer]) if j != i]
            assert shown == pytest.approx(matrix[i][:i] + matrix[i][i + 1 :], abs=digits)
    assert len(cells(page, "pairs-table")) == len(found["errors"]["deceiving"])
    worth = cells(page, "worth-table")
    assert [worth[line["peer"]][1] for line in found["errors"]["peers"]] == [
        percent(line["accuracy"]) for line in found["errors"]["peers"]
    ]
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
        assert row[1] == percent(prob)
        assert row[0] == flat(made[3]["answers"][peer]) or len(row[0]) > 80
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
    page.fill("#filter-text", words)
    page.keyboard.press("Enter")
    found = service.get(f"{BASE}/decisions", params={"last": 25, "text": words}).json()["decisions"]
    page.locator("#decisions-table tbody tr").nth(len(found)).wait_for(state="detached")
    assert list(cells(page, "decisions-table")) == questions(found)
    page.click("text=Show all")
    page.wait_for_selector(f"#decisions-table a[href$='{made[0]['id']}']")
    topic = made[0]["topics"][0]
    page.select_option("#filter-topic", topic)
    page.select_option("#filter-label", "wrong")
    page.fill("#filter-below", "90")
    page.click("button:has-text('Show')")
    wanted = {"last": 25, "topic": topic, "label": "wrong", "below": 0.9}
    found = service.get(f"{BASE}/decisions", params=wanted).json()["decisions"]
    page.locator(f"#decisions-table a[href$='{made[0]['id']}']").wait_for(state="detached")
    assert list(cells(page, "decisions-table")) == questions(found)


def test_what_models_wrote_is_text(page, service):
    for view in ("decisions", "inbox"):
        show(page, service, view)
        assert ATTACK in page.inner_text("main")
        assert page.locator("main img, main script").count() == 0
    page.locator("form.card", has_text=ATTACK).first.locator("text=why").click()
    page.wait_for_selector("main[data-shown=decision]")
    assert page.inner_text("#question").startswith(ATTACK)
    assert page.evaluate("document.body.dataset.attacked") is None


def test_events_are_labelled_by_keyboard_and_together(page, service, peers):
    show(page, service, "inbox")
    found = service.get(f"{BASE}/unlabelled", params={"last": 10}).json()
    waiting = found["decisions"]
    values = [sum(x * x for x in found["moves"][made["event"]].values()) for made in waiting]
    assert values == sorted(values, reverse=True)
    events = page.eval_on_selector_all("form.card", "forms => forms.map(form => form.dataset.event)")
    assert events == [made["event"] for made in waiting]
    first = waiting[0]
    shown = page.locator("form.card").first.inner_text()
    assert all(
        flat(first["answers"][peer])[:40] in flat(shown) for peer in peers if first["answers"].get(peer)
    )
    assert f"weighs {found['weight']:.2f}" in page.inner_text(".lead")
    page.keyboard.press("j")
    page.keyboard.press("1")  # the first answer, which was served, is right, and all others are wrong
    page.keyboard.press("Enter")
    page.wait_for_selector("#message:has-text('Recorded for')")
    labels = service.get(f"{BASE}/decision", params={"id": first["id"]}).json()["labels"]
    same = {peer for peer in first["canons"] if first["canons"][peer] == first["canons"][first["peer"]]}
    assert {peer for peer, c in labels.items() if c > 0} == same
    assert {peer for peer, c in labels.items() if c < 0} == set(first["answers"]) - same
    page.locator(f"form[data-event='{first['event']}']").wait_for(state="detached")
    rest = page.locator("form.card").count()
    page.click("text=Mark all served answers wrong")
    page.locator("form.card").nth(1).locator("input[value='']").first.check()
    page.click("#record-all")
    page.wait_for_selector(f"#message:has-text('Recorded {rest - 1} decision')")
    labels = service.get(f"{BASE}/decision", params={"id": waiting[1]["id"]}).json()["labels"]
    assert labels[waiting[1]["peer"]] == -1.0
    page.locator("form.card").nth(1).wait_for(state="detached")
    assert service.get(f"{BASE}/unlabelled").json()["decisions"][0]["id"] == waiting[2]["id"]


def test_a_source_is_revoked(page, service):
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
    assert f"after {before} tasks" in page.inner_text(".lead")
    asked = {"question": "One more?", "answers": {peers[0]: "1", peers[1]: "2"}}
    service.post(f"{BASE}/vote", json=asked).raise_for_status()
    page.wait_for_selector(f"text=after {before + 1} tasks")


def test_a_live_update_takes_away_nothing_that_was_filled_in(page, service, peers):
    show(page, service, "decisions")
    page.fill("#filter-text", "what I look for")
    page.select_option("#filter-label", "wrong")
    page.evaluate("document.activeElement.blur()")
    asked = {"question": "Another one?", "answers": {peers[0]: "1", peers[1]: "2"}}
    service.post(f"{BASE}/vote", json=asked).raise_for_status()
    for _ in range(3):
        page.wait_for_event("response", lambda response: response.url.endswith("/trust"))
    assert page.input_value("#filter-text") == "what I look for"
    assert page.input_value("#filter-label") == "wrong"


def test_no_live_update_takes_the_place_of_a_view_that_is_still_loading(page, service):
    show(page, service, "decisions")
    loads = []

    def answer_late(route):
        loads.append(route)
        response = route.fetch()
        page.wait_for_timeout(5_000)  # some looks later
        route.fulfill(response=response)

    page.route("**/trend*", answer_late)
    show(page, service, "trust")
    assert len(loads) == 1
    page.unroute("**/trend*")


@pytest.mark.parametrize("address", ["#/default/constructor", "#/%E0%A4%A/x", "#/nobody/x", "#"])
def test_an_address_that_names_nothing_shows_the_overview(page, service, address):
    page.goto(f"{str(service.base_url).rstrip('/')}/dashboard/{address}")
    page.wait_for_selector("main[data-shown=overview]")


@pytest.mark.parametrize("view", [view for view in VIEWS if view != "relation"])  # peer by peer: it scrolls
def test_a_desktop_shows_every_column(page, service, view):
    show(page, service, view)
    wide = "boxes => boxes.filter(box => box.scrollWidth > box.clientWidth).map(box => box.ariaLabel)"
    assert page.eval_on_selector_all(".scroll", wide) == []


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
        page.wait_for_selector("main[data-shown=overview]")
        page.reload()
        page.wait_for_selector("main[data-shown=overview]")
        other = context.new_page()
        other.goto(f"{url}/dashboard/")
        other.wait_for_selector("#key-dialog[open]")


def test_buttons_are_for_those_who_may_and_an_empty_memory_says_what_to_do(browser, wheel, tmp_path):
    installed, _ = wheel
    file = tmp_path / "keys.json"
    keys = {role: add_key(file, role, {"default": role}, 0.0) for role in ("read", "write", "admin")}
    buttons = {"inbox": "form.card button", "sources": "#sources-table button"}
    expected = {"read": (0, 0), "write": (1, 0), "admin": (1, 1)}
    with serving_wheel(installed, tmp_path / "memory.db", "--keys", str(file)) as url:
        admin = {"authorization": f"Bearer {keys['admin']}"}
        with httpx2.Client(base_url=url, headers=admin) as http, browser.new_context() as context:
            http.put(BASE, json={"peers": ["ann", "bob"], "encoder": "hashed"}).raise_for_status()
            page = context.new_page()

            def enter(key, view):
                page.goto(f"{url}/dashboard/#/default/{view}")
                page.evaluate("key => sessionStorage.setItem('sigma-mem-key', key)", key)
                page.reload()
                page.wait_for_selector(f"main[data-shown={view}]")

            for view in VIEWS:
                enter(keys["read"], view)
                text = page.inner_text("main")
                assert "NaN" not in text
                assert "independent votes" not in text
                assert "100.0 %" not in text
                assert "curl" not in text
                assert "POST" not in text
                assert page.locator(".empty").count() >= 1 or view == "sources", view
            made = http.post(f"{BASE}/route", json={"question": "which?"}).json()
            http.post(f"{BASE}/feedback", json={"decision": made["id"], "labels": {"ann": True}})
            http.post(f"{BASE}/route", json={"question": "and which?"}).raise_for_status()
            for role, counts in expected.items():
                for (view, selector), count in zip(buttons.items(), counts, strict=True):
                    enter(keys[role], view)
                    assert page.locator(selector).count() == count, (role, view)


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
        assert sorted(shown) == [f"answer {n}, text not kept" for n in (1, 2)]
        page.goto(f"{url}/dashboard/#/default/decision/{made['id']}")
        page.wait_for_selector("#outcome-table")
        assert "answer 2, text not kept" in page.locator("#outcome-table").inner_text()
