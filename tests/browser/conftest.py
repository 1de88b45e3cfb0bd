"""A service from an installed wheel, fed with a stream, and a real Chromium that looks at it."""

import fcntl
import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest

from browser.streams import feed

ROOT = Path(__file__).parents[2]
PARTS = ("src", "pyproject.toml", "README.md", "LICENSE")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")


def install_wheel(folder):
    """Build the wheel from a copy of the tree and install it into a folder of its own."""
    source, wheels, target = folder / "source", folder / "wheels", folder / "installed"
    for part in PARTS:
        if (ROOT / part).is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
            shutil.copytree(ROOT / part, source / part, ignore=ignored)
        else:
            shutil.copy(ROOT / part, source / part)
    here = ("--no-build-isolation",) if find_spec("setuptools") else ()
    subprocess.run([*PIP, "wheel", "--no-deps", *here, "--wheel-dir", wheels, source], check=True)
    (wheel,) = wheels.glob("sigma_mem-*.whl")
    subprocess.run([*PIP, "install", "--no-deps", "--no-index", "--target", target, wheel], check=True)
    return target


@contextmanager
def serving_wheel(installed, memory, *options, keep_text=True):
    """`sigma-mem serve` from the installed wheel, as a process; gives its address."""
    code = "import sigma_mem.cli, sys; print(sigma_mem.cli.__file__, flush=True); sigma_mem.cli.main()"
    flags = ("serve", "--port", "0", "--path", str(memory), "--log", "off", *options)
    with subprocess.Popen(
        [sys.executable, "-c", code, *flags],
        cwd=installed,
        env={**os.environ, "PYTHONPATH": str(installed), "SIGMA_MEM_KEEP_TEXT": str(keep_text)},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert Path(process.stdout.readline().strip()).is_relative_to(installed)
            yield process.stdout.readline().removeprefix("sigma-mem serves on ").strip()
        finally:
            process.terminate()
            try:
                assert process.wait(60) == 0
            finally:
                process.kill()


def prepare(folder):
    """The installed wheel, and a memory that its service was fed."""
    memory = folder / "fed.db"
    if not memory.exists():
        installed, fresh = install_wheel(folder), folder / "fresh.db"
        with serving_wheel(installed, fresh) as url, httpx2.Client(base_url=url) as http:
            feed(http)
        fresh.rename(memory)
    return folder / "installed", memory


@pytest.fixture(scope="session")
def wheel(tmp_path_factory):
    """Prepared once, also where several test processes share the work."""
    if CHROMIUM is None:
        pytest.skip("no Chromium found; get Debian's with: apt-get install chromium")
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    folder = shared / "browser"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return prepare(folder)


@pytest.fixture(scope="module")
def service(wheel, tmp_path_factory):
    """The wheel's service on a copy of the memory that was fed."""
    installed, memory = wheel
    copy = shutil.copy(memory, tmp_path_factory.mktemp("service") / "memory.db")
    with serving_wheel(installed, copy) as url, httpx2.Client(base_url=url) as http:
        yield http


@pytest.fixture(scope="module")
def browser(wheel):
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def page(browser, service):
    """A tab that writes down where it asks, and fails the test for whatever the browser complains of."""
    with browser.new_context(viewport={"width": 1200, "height": 900}) as context:
        page = context.new_page()
        hosts, complaints = set(), []
        page.on("request", lambda request: hosts.add(urlsplit(request.url).netloc))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda line: complaints.append(line.text) if line.type == "error" else None)
        page.set_default_timeout(30_000)
        yield page
        assert hosts == {service.base_url.netloc.decode()}
        assert complaints == []
