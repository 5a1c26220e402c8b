"""Take pictures of every page of the console, for those who change it to look at.

Starts `kilonova up` with its demo on a folder of its own, and ends it. Each page is taken at the
widths of a laptop and of a phone, dark and light, as PAGE-WIDTH-THEME.png; `--readme` renews the
picture of the README only.
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

from tools.chromium.get import HOW_TO_GET, find
from tools.tables import ROOT

README_PICTURE = ROOT / "docs" / "images" / "console.png"
SIZES = ((1280, 800), (390, 844))
THEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
PATIENCE = 60_000


def main() -> None:
    parser = argparse.ArgumentParser(prog="make screenshots", description=__doc__)
    parser.add_argument("--into", type=Path, metavar="FOLDER", help="where pictures of all go")
    parser.add_argument("--readme", action="store_true", help=f"renew {README_PICTURE.name}")
    chosen = parser.parse_args()
    if chosen.into is None and not chosen.readme:
        parser.error('say where to: make screenshots ARGS="--into FOLDER", or ARGS=--readme')
    command = find()
    if command is None:
        sys.exit(f"make screenshots: {HOW_TO_GET}")
    with console_of_the_demo() as link, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=command)
        if chosen.into is not None:
            take_all(browser, link, chosen.into)
        if chosen.readme:
            take_for_readme(browser, link)
        browser.close()


@contextmanager
def console_of_the_demo() -> Generator[str]:
    """The link to a console; the demo may still be starting.

    This machine is no node of it: its name belongs in no picture.
    """
    with tempfile.TemporaryDirectory(prefix="kilonova-pictures-") as folder:
        data = ("--data", folder)
        kilonova("up", "--detach", "--wait", "--no-process-node", "--port", "0", *data)
        try:
            yield json.loads(kilonova("status", "-o", "json", *data))["console"]
        finally:
            kilonova("down", *data)


def kilonova(*words: str) -> str:
    """What a command says on standard output; it must succeed."""
    command = [sys.executable, "-m", "kilonova.cli", *words]
    done = subprocess.run(
        command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False, text=True
    )
    if done.returncode:
        sys.exit(f"make screenshots: `kilonova {' '.join(words)}` failed")
    return done.stdout


def take_all(browser: Browser, link: str, into: Path) -> None:
    """Every page that the navigation leads to, at every size, in both themes."""
    into.mkdir(parents=True, exist_ok=True)
    for width, height in SIZES:
        for theme in THEMES:
            with opened(browser, link, width, height, theme) as page:
                for path in pages(page):
                    page.goto(path)
                    settle(page)
                    name = path.strip("/").replace("/", "-") or "start"
                    picture = into / f"{name}-{width}-{theme}.png"
                    page.screenshot(path=picture, animations="disabled")
                    print(picture)


def take_for_readme(browser: Browser, link: str) -> None:
    """The fleet, light, with the demo running."""
    with opened(browser, link, 1280, 800, "light") as page:
        page.goto("/fleet")
        expect(page.get_by_text("chat").first).to_be_visible(timeout=PATIENCE)
        settle(page)
        README_PICTURE.parent.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=README_PICTURE, animations="disabled")
    print(f"{README_PICTURE.relative_to(ROOT)}: {README_PICTURE.stat().st_size:,} bytes")


@contextmanager
def opened(
    browser: Browser, link: str, width: int, height: int, theme: Literal["light", "dark"]
) -> Generator[Page]:
    """A page of this size that came by the link."""
    parts = urlsplit(link)
    with browser.new_context(
        base_url=f"{parts.scheme}://{parts.netloc}",
        viewport={"width": width, "height": height},
        color_scheme=theme,
    ) as context:
        context.set_default_timeout(PATIENCE)
        page = context.new_page()
        page.goto(link)
        settle(page)
        yield page


def pages(page: Page) -> list[str]:
    """The paths of the navigation, in its order."""
    links = page.get_by_role("navigation").first.get_by_role("link", include_hidden=True)
    paths = [link.get_attribute("href") or "" for link in links.all()]
    return list(dict.fromkeys(path for path in paths if path.startswith("/")))


def settle(page: Page) -> None:
    """Wait until the page shows what the server has sent."""
    expect(page.get_by_role("main")).to_be_visible(timeout=PATIENCE)
    page.wait_for_timeout(500)


if __name__ == "__main__":
    main()
