"""Chromium without a window, for one visit of the console after the other."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from playwright.async_api import Browser, Page, async_playwright

from tools.chromium.get import HOW_TO_GET, find

_PATIENCE_SECONDS = 60


@asynccontextmanager
async def patience(what: str) -> AsyncGenerator[None]:
    """Wait for something, but not for ever."""
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            yield
    except TimeoutError as error:
        raise RuntimeError(f"waited {_PATIENCE_SECONDS} s for {what}") from error


@asynccontextmanager
async def chromium() -> AsyncGenerator[Browser]:
    """The system's browser; none is ever fetched."""
    command = find()
    if command is None:
        raise RuntimeError(HOW_TO_GET)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=command)
        yield browser
        await browser.close()


@asynccontextmanager
async def visit(browser: Browser, link: str, script: str = "") -> AsyncGenerator[Page]:
    """The page behind a link, in a profile that was never here; `script` runs before its own."""
    context = await browser.new_context(viewport={"width": 1280, "height": 800})
    context.set_default_timeout(_PATIENCE_SECONDS * 1e3)
    page = await context.new_page()
    if script:
        await page.add_init_script(script)
    await page.goto(link)
    yield page
    await context.close()


@asynccontextmanager
async def visiting(link: str) -> AsyncGenerator[Page]:
    """One visit, in a browser of its own."""
    async with chromium() as browser, visit(browser, link) as page:
        yield page
