"""Headless Chromium, where it is installed: `make browser` installs it (Debian, as root)."""

from __future__ import annotations

import importlib.util
import json
import shutil
import tempfile
import time
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--window-size=1600,1000",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--disable-lcd-text",  # smaller pictures
]


def missing() -> str:
    """What is not there; "" if all is."""
    lacks = [program for program in ("chromium", "chromedriver") if shutil.which(program) is None]
    lacks += [] if importlib.util.find_spec("selenium") else ["selenium"]
    return ", ".join(lacks)


class Browser:
    """Chromium with one page."""

    def __init__(self) -> None:
        from selenium import webdriver
        from selenium.webdriver.chrome.options import Options
        from selenium.webdriver.chrome.service import Service

        options = Options()
        for flag in (*FLAGS, f"--user-data-dir={tempfile.mkdtemp()}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        options.binary_location = shutil.which("chromium") or ""
        service = Service(shutil.which("chromedriver"))
        self.driver = webdriver.Chrome(service=service, options=options)
        self.driver.set_script_timeout(60)

    def resize(self, width: int = 1600, height: int = 1000) -> None:
        """Give the window's inside a size in pixels, narrower than a window can be."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def open(self, address: str) -> float:
        """Load a page and wait until it is shown; seconds from its start, as it counts them."""
        self.driver.get("about:blank")
        self.driver.get_log("browser")
        self.driver.get_log("performance")
        self.driver.get(address)
        end = time.monotonic() + 60
        while time.monotonic() < end:
            ready = self.run("return document.documentElement.dataset.ready")
            if ready:
                return int(ready) / 1e3
            time.sleep(0.05)
        pytest.fail(f"the page did not open: {self.errors()}")

    def run(self, script: str, *args: Any) -> Any:
        """The result of a script in the page."""
        return self.driver.execute_script(script, *args)

    def click(self, selector: str) -> None:
        """A real click on the first element of a selector; text is drawn again when it scrolls."""
        from selenium.common.exceptions import StaleElementReferenceException
        from selenium.webdriver.common.by import By

        for _ in range(10):
            try:
                self.driver.find_element(By.CSS_SELECTOR, selector).click()
                return
            except StaleElementReferenceException:
                time.sleep(0.05)
        pytest.fail(f"{selector} does not keep still")

    def press(self, *keys: str) -> None:
        """Keys, typed where the focus is."""
        from selenium.webdriver import ActionChains

        ActionChains(self.driver).send_keys(*keys).perform()

    def errors(self) -> list[str]:
        """The console's errors and warnings since the last question."""
        found = self.driver.get_log("browser")
        return [entry["message"] for entry in found if entry["level"] in ("SEVERE", "WARNING")]

    def requests(self) -> list[str]:
        """The addresses asked for since the last question, but for the page's own file."""
        rows = [json.loads(row["message"])["message"] for row in self.driver.get_log("performance")]
        sent = [r["params"] for r in rows if r["method"] == "Network.requestWillBeSent"]
        addresses = [one["request"]["url"] for one in sent]
        return [a for a in addresses if not a.startswith(("file:", "data:", "about:", "blob:"))]

    def save(self, file: Path) -> None:
        """A picture of the page, of 256 colours."""
        picture = Image.open(BytesIO(self.driver.get_screenshot_as_png())).convert("RGB")
        picture.quantize(256, dither=Image.Dither.NONE).save(file, optimize=True)


# Boxes of the graph that its pane cuts: to axe they are whole, and beside the pane's buttons.
CLIPPED = """
const pane = document.querySelector("#graph .view").getBoundingClientRect();
for (const box of document.querySelectorAll("#graph .nd")) {
  const at = box.getBoundingClientRect();
  if (at.top < pane.top || at.bottom > pane.bottom) box.style.visibility = "hidden";
}
"""


def check_with_axe(browser, axe, theme, tab=""):
    """axe-core's rules of WCAG 2.2, levels A and AA, on a page that shows everything."""
    browser.run("page.theme(arguments[0])", theme)
    browser.run(
        "page.compare(); page.panes.asm.choose(page.panes.asm.rows.findIndex((r) => r.set))"
    )
    browser.run(CLIPPED)
    # The width of a flame is a time; whatever is too narrow is a row of the table of nodes.
    assert faults(browser, axe, **{"target-size": {"enabled": tab != "flame"}}) == []


def faults(browser, axe, **rules):
    """What axe-core finds in the page as it is."""
    return browser.driver.execute_async_script(
        axe + "; const [rules, done] = arguments;"
        "const runOnly = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'];"
        "axe.run(document, {runOnly, rules})"
        ".then((found) => done(found.violations.map((v) => [v.id, v.help, v.nodes.length,"
        " ...v.nodes.slice(0, 3).map((n) => n.html.slice(0, 90) + n.failureSummary)])))",
        rules,
    )
