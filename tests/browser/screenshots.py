"""Take the pictures of docs/service.md: the dashboard of a wheel's service that was fed a recorded stream.

python tests/browser/screenshots.py [FOLDER]     # docs/ by default
"""

import sys
import tempfile
from pathlib import Path

import httpx2
from playwright.sync_api import sync_playwright

sys.path.insert(0, str(Path(__file__).parents[1]))  # as pytest does

from browser.conftest import CHROMIUM, ROOT, prepare, serving_wheel
from browser.streams import RECORDED

DESK, TALL = {"width": 1200, "height": 860}, {"width": 1200, "height": 1110}
PHONE = {"width": 390, "height": 844}
VIEWS = (
    "overview",
    "inbox",
    "decisions",
    "decision",
    "trust",
    "topics",
    "relation",
    "cost",
    "sources",
    "report",
)
IN_THE_DOCS = {
    "dashboard-overview": ("overview", TALL, "light"),
    "dashboard-trust": ("trust", TALL, "light"),
    "dashboard-topics": ("topics", DESK, "dark"),
    "dashboard-decision": ("decision", TALL, "light"),
    "dashboard-phone": ("overview", PHONE, "light"),
}
EVERYTHING = {
    f"{view}-{name}-{scheme}": (view, size, scheme)
    for view in VIEWS
    for name, size in (("desk", DESK), ("phone", PHONE))
    for scheme in ("light", "dark")
}


def take(pictures, folder, url, http):
    """Every picture as a file."""
    chosen = http.get("/v1/memory/default/decisions", params={"last": 20}).json()["decisions"][12]["id"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for name, (view, size, scheme) in pictures.items():
            with browser.new_context(viewport=size, color_scheme=scheme) as context:
                page = context.new_page()
                argument = f"/{chosen}" if view == "decision" else ""
                page.goto(f"{url}/dashboard/#/default/{view}{argument}")
                page.wait_for_selector(f"main[data-shown={view}]")
                page.wait_for_timeout(300)
                page.screenshot(path=Path(folder, f"{name}.png"))
        browser.close()


def main():
    if not RECORDED.exists() or CHROMIUM is None:
        raise SystemExit(f"needs {RECORDED} and Chromium")
    wanted, folder = (EVERYTHING, sys.argv[1]) if sys.argv[1:] else (IN_THE_DOCS, ROOT / "docs")
    with tempfile.TemporaryDirectory() as scratch:
        installed, memory = prepare(Path(scratch))
        with serving_wheel(installed, memory) as url, httpx2.Client(base_url=url) as http:
            take(wanted, folder, url, http)


if __name__ == "__main__":
    main()
