"""Headless Chromium for visits of the console."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from playwright.async_api import Browser, Page, async_playwright

from tools.realparts.parts.chromium import MISSING_CHROMIUM_MESSAGE, find_command

_TIMEOUT_SECONDS = 60


@asynccontextmanager
async def limit_wait(what: str) -> AsyncGenerator[None]:
    """Limit the duration of the context."""
    try:
        async with asyncio.timeout(_TIMEOUT_SECONDS):
            yield
    except TimeoutError as error:
        raise RuntimeError(f"waited {_TIMEOUT_SECONDS} s for {what}") from error


@asynccontextmanager
async def launch_chromium() -> AsyncGenerator[Browser]:
    """The system's browser; none is downloaded."""
    command = find_command()
    if command is None:
        raise RuntimeError(MISSING_CHROMIUM_MESSAGE)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=command)
        yield browser
        await browser.close()


@asynccontextmanager
async def visit_page(browser: Browser, link: str, script: str = "") -> AsyncGenerator[Page]:
    """The page of a link in a fresh profile; `script` runs before its own scripts."""
    context = await browser.new_context(viewport={"width": 1280, "height": 800})
    context.set_default_timeout(_TIMEOUT_SECONDS * 1e3)
    page = await context.new_page()
    if script:
        await page.add_init_script(script)
    await page.goto(link)
    yield page
    await context.close()


@asynccontextmanager
async def open_page(link: str) -> AsyncGenerator[Page]:
    """One visit in its own browser."""
    async with launch_chromium() as browser, visit_page(browser, link) as page:
        yield page
