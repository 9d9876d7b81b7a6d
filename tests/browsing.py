"""A real browser for tests. Where there is none they are skipped and say so; `make browser` installs one."""

from __future__ import annotations

import os
import shutil
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

INSTALL = "make browser installs it"
NODES = Path(__file__).resolve().parents[1] / ".browser" / "node_modules" / "axe-core" / "axe.min.js"
"""Where axe-core is if it came from Node's packages instead of Python's."""


class NoBrowser(Exception):
    """What is missing, and how to get it."""


def start():
    """Chromium, driven by Selenium."""
    try:
        from selenium import webdriver
    except ImportError:
        raise NoBrowser(f"no Selenium here: {INSTALL}") from None
    chromium = os.environ.get("GRADTD_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if chromium is None or driver is None:
        raise NoBrowser(f"no Chromium with its driver here: {INSTALL}")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))


@pytest.fixture(scope="session")
def browser():
    try:
        opened = start()
    except NoBrowser as missing:
        pytest.skip(str(missing))
    yield opened
    opened.quit()


def set_window(browser, width, scheme="light"):
    """The size of the window, and what the reader prefers."""
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def visit(browser, address):
    """Open an address afresh, and wait until all of it is there; seconds only bound the wait of a test that fails."""
    browser.get("about:blank")
    browser.get(address)
    end = time.monotonic() + 60
    while browser.execute_script("return location.href === 'about:blank' || document.readyState !== 'complete'"):
        assert time.monotonic() < end, f"waited in vain for {address}"
        time.sleep(0.02)


def complaints(browser):
    """What the console says, but for remarks."""
    return [entry for entry in browser.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]


def sideways(browser, width):
    """How far the page can be scrolled sideways, in pixels."""
    assert browser.execute_script("return window.innerWidth") == width
    inside, room = browser.execute_script("const e = document.documentElement; return [e.scrollWidth, e.clientWidth]")
    return max(inside - room, 0)


def axe():
    """The script of axe-core, from a package of which nothing else is used."""
    found = find_spec("axe_playwright_python")
    places = [Path(folder) / "axe.min.js" for folder in (found.submodule_search_locations if found else [])]
    return next((path for path in [*places, NODES] if path.exists()), None)


def serious(browser):
    """What axe-core calls serious or critical."""
    script = axe()
    if script is None:
        pytest.skip(f"no axe-core here: {INSTALL}")
    browser.execute_script(script.read_text())
    found = browser.execute_async_script("axe.run(document, {preload: false}).then(arguments[arguments.length - 1])")
    grave = [v for v in found["violations"] if v["impact"] in ("serious", "critical")]
    return [f"{v['id']}: {v['nodes'][0]['html'][:300]}" for v in grave]
