"""A browser as a test uses it: the system's Chromium, and what it finds wrong with a page.

Playwright drives it; none of Playwright's own browsers is ever fetched.
"""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

from playwright.sync_api import (
    Browser,
    ConsoleMessage,
    Error,
    Page,
    Request,
    Response,
    expect,
    sync_playwright,
)

from tools.chromium.get import HOW_TO_GET, find

PATIENCE = 30_000
"""Milliseconds that a test waits for what it expects: a machine may be busy, a page is not slow."""

_ABOUT_ONE = "/api/why?"

_REPORT_BREACHES = """
addEventListener("securitypolicyviolation", (breach) =>
  console.error(`content policy: ${breach.violatedDirective} ${breach.blockedURI}`));
"""


@contextmanager
def chromium() -> Generator[Browser]:
    """A browser without windows.

    As long as it is there, its thread counts as one with a running event loop: async tests of the
    same worker come after its end.
    """
    command = find()
    assert command is not None, HOW_TO_GET
    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=command)
        yield browser
        browser.close()


@dataclass
class Complaints:
    """All that a page must not give reason for.

    Errors in its console, errors that nobody caught, requests that failed or were refused, breaches
    of the content policy. What is asked about may just have gone: that it is not found is none.
    """

    lines: list[str] = field(default_factory=list[str])

    def listen(self, page: Page) -> None:
        """Take down what is wrong with `page` from now on."""
        page.add_init_script(_REPORT_BREACHES)
        page.on("console", self._said)
        page.on("pageerror", self._uncaught)
        page.on("requestfailed", self._failed)
        page.on("response", self._answered)

    def take(self) -> list[str]:
        """What there was, once: a test that breaks things has looked at it."""
        lines, self.lines = self.lines, []
        return lines

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not (
            "status of 404" in message.text and _ABOUT_ONE in message.location["url"]
        ):
            self.lines.append(f"{message.type} in the console: {message.text}")

    def _uncaught(self, error: Error) -> None:
        self.lines.append(f"uncaught: {error}")

    def _failed(self, request: Request) -> None:
        # A page that is left gives up what it waits for: its stream above all.
        if request.failure != "net::ERR_ABORTED":
            self.lines.append(f"{request.method} {request.url}: {request.failure}")

    def _answered(self, response: Response) -> None:
        if response.status >= 400 and not (response.status == 404 and _ABOUT_ONE in response.url):
            self.lines.append(f"{response.request.method} {response.url}: {response.status}")
