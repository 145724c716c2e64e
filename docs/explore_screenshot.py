"""Take the picture of docs/explore.md: ``python docs/explore_screenshot.py RUN explore.png``.

Needs Chromium (apt-get install chromium) and Playwright (pip install playwright).
"""

from __future__ import annotations

import subprocess
import sys

from playwright.sync_api import sync_playwright

SIZE = {"width": 1200, "height": 1020}
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]


def main(run: str, output: str) -> None:
    """Open the page of a run, wait for the reference, and write what is seen of it."""
    command = [sys.executable, "-m", "piop", "explore", run, "--no-browser"]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server,
        sync_playwright() as playwright,
    ):
        address = (server.stdout.readline() if server.stdout else "").split()[-1]
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=ARGUMENTS)
        page = browser.new_page(viewport=SIZE)  # type: ignore[arg-type]
        page.goto(address)
        page.wait_for_selector("body[data-reference]")
        page.wait_for_timeout(1000)
        page.screenshot(path=output)
        browser.close()
        server.terminate()


if __name__ == "__main__":
    main(*sys.argv[1:])
