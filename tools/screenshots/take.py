"""Take screenshots of every page of the console, for review of changes.

Starts `kilonova up` with its demo on a temporary directory, and stops it. Each page is taken at
laptop and phone width, dark and light, as PAGE-WIDTH-THEME.png; `--readme` updates only the
screenshot of the README.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from playwright.sync_api import Browser, Page, expect, sync_playwright

from tools.realparts.parts.chromium import MISSING_CHROMIUM_MESSAGE, find_command
from tools.tables import ROOT

README_PICTURE = ROOT / "docs" / "images" / "console.png"
SIZES = ((1280, 800), (390, 844))
THEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
TIMEOUT_MS = 60_000


def main() -> None:
    parser = argparse.ArgumentParser(prog="make screenshots", description=__doc__)
    parser.add_argument(
        "--into", type=Path, metavar="FOLDER", help="output directory for all pages"
    )
    parser.add_argument("--readme", action="store_true", help=f"update {README_PICTURE.name}")
    options = parser.parse_args()
    if options.into is None and not options.readme:
        parser.error('no output given: make screenshots ARGS="--into FOLDER", or ARGS=--readme')
    command = find_command()
    if command is None:
        sys.exit(f"make screenshots: {MISSING_CHROMIUM_MESSAGE}")
    with start_demo_console() as link, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=command)
        if options.into is not None:
            take_all(browser, link, options.into)
        if options.readme:
            take_for_readme(browser, link)
        browser.close()


@contextmanager
def start_demo_console() -> Generator[str]:
    """The link to a console; the demo may still be starting.

    This machine is not one of its nodes: its host name must not appear in screenshots.
    """
    with tempfile.TemporaryDirectory(prefix="kilonova-pictures-") as folder:
        data = ("--data", folder)
        run_kilonova("up", "--detach", "--wait", "--no-process-node", "--port", "0", *data)
        try:
            yield json.loads(run_kilonova("status", "-o", "json", *data))["console"]
        finally:
            run_kilonova("down", *data)


def run_kilonova(*arguments: str) -> str:
    """The standard output of a command, which must succeed."""
    command = [sys.executable, "-m", "kilonova.cli", *arguments]
    result = subprocess.run(
        command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False, text=True
    )
    if result.returncode:
        sys.exit(f"make screenshots: `kilonova {' '.join(arguments)}` failed")
    return result.stdout


def take_all(browser: Browser, link: str, into: Path) -> None:
    """Every page of the navigation, at every size, in both themes."""
    into.mkdir(parents=True, exist_ok=True)
    for width, height in SIZES:
        for theme in THEMES:
            with open_page(browser, link, width, height, theme) as page:
                for path in list_pages(page):
                    page.goto(path)
                    wait_until_idle(page)
                    name = path.strip("/").replace("/", "-") or "start"
                    picture = into / f"{name}-{width}-{theme}.png"
                    page.screenshot(path=picture, animations="disabled")
                    print(picture)


def take_for_readme(browser: Browser, link: str) -> None:
    """The fleet page, light, with the demo running."""
    with open_page(browser, link, 1280, 800, "light") as page:
        page.goto("/fleet")
        expect(page.get_by_text("chat").first).to_be_visible(timeout=TIMEOUT_MS)
        wait_until_idle(page)
        README_PICTURE.parent.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=README_PICTURE, animations="disabled")
    print(f"{README_PICTURE.relative_to(ROOT)}: {README_PICTURE.stat().st_size:,} bytes")


@contextmanager
def open_page(
    browser: Browser, link: str, width: int, height: int, theme: Literal["light", "dark"]
) -> Generator[Page]:
    """A page of this size, opened through the link."""
    parts = urlsplit(link)
    with browser.new_context(
        base_url=f"{parts.scheme}://{parts.netloc}",
        viewport={"width": width, "height": height},
        color_scheme=theme,
    ) as context:
        context.set_default_timeout(TIMEOUT_MS)
        page = context.new_page()
        page.goto(link)
        wait_until_idle(page)
        yield page


def list_pages(page: Page) -> list[str]:
    """The paths of the navigation, in order."""
    links = page.get_by_role("navigation").first.get_by_role("link", include_hidden=True)
    paths = [link.get_attribute("href") or "" for link in links.all()]
    return list(dict.fromkeys(path for path in paths if path.startswith("/")))


def wait_until_idle(page: Page) -> None:
    """Wait until the page shows the server's data."""
    expect(page.get_by_role("main")).to_be_visible(timeout=TIMEOUT_MS)
    page.wait_for_timeout(500)


if __name__ == "__main__":
    main()
