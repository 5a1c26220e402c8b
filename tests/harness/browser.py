"""The system's Chromium for tests, and errors of its pages.

Driven by Playwright; Playwright's own browsers are never downloaded.
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

from tools.realparts.parts.chromium import MISSING_CHROMIUM_MESSAGE, find_command

TIMEOUT_MS = 30_000
"""Timeout of expectations; generous, because the machine may be busy."""

_ADDRESS_BAR_FEATURES = ("WebUIOmniboxPopup", "WebUIOmniboxAimPopup", "WebUIOmniboxFullPopup")
"""Pages of the address bar, which Chromium loads for every window: half of the CPU time of a test
that opens one page."""
_PLAYWRIGHT_FEATURES = (
    *("AvoidUnnecessaryBeforeUnloadCheckSync", "DestroyProfileOnBrowserClose", "HttpsUpgrades"),
    *("HttpsFirstBalancedModeAutoEnable", "LensOverlay", "MediaRouter", "PaintHolding"),
    *("ThirdPartyStoragePartitioning", "AvoidCorsURLLoaderRestartOnRedirect", "OptimizationHints"),
    *("NetworkTimeServiceQuerying", "AimEnabled", "PreconnectToSearch"),
)
"""What Playwright disables itself, repeated since only the last list on the command line counts."""
_DISABLED_FEATURES = (*_PLAYWRIGHT_FEATURES, *_ADDRESS_BAR_FEATURES)

_EXPLAIN_PATH = "/api/why?"

_REPORT_VIOLATIONS_SCRIPT = """
addEventListener("securitypolicyviolation", (breach) =>
  console.error(`content policy: ${breach.violatedDirective} ${breach.blockedURI}`));
"""


@contextmanager
def launch_chromium() -> Generator[Browser]:
    """A headless browser.

    While it runs, its thread counts as one with a running event loop: async tests of the same
    worker run after its end.
    """
    command = find_command()
    assert command is not None, MISSING_CHROMIUM_MESSAGE
    expect.set_options(timeout=TIMEOUT_MS)
    with sync_playwright() as playwright:
        disabled = f"--disable-features={','.join(_DISABLED_FEATURES)}"
        browser = playwright.chromium.launch(executable_path=command, args=[disabled])
        yield browser
        browser.close()


@dataclass
class PageErrors:
    """Errors that a page must not cause.

    Console errors, uncaught exceptions, failed requests, and violations of the content security
    policy. A 404 of an explanation is allowed: the object may just have been deleted.
    """

    lines: list[str] = field(default_factory=list[str])

    def listen(self, page: Page) -> None:
        """Record errors of `page` from now on."""
        page.add_init_script(_REPORT_VIOLATIONS_SCRIPT)
        page.on("console", self._on_console_message)
        page.on("pageerror", self._on_page_error)
        page.on("requestfailed", self._on_request_failed)
        page.on("response", self._on_response)

    def take_all(self) -> list[str]:
        """The recorded errors, which are cleared: for tests that cause errors on purpose."""
        lines, self.lines = self.lines, []
        return lines

    def _on_console_message(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not (
            "status of 404" in message.text and _EXPLAIN_PATH in message.location["url"]
        ):
            self.lines.append(f"{message.type} in the console: {message.text}")

    def _on_page_error(self, error: Error) -> None:
        self.lines.append(f"uncaught: {error}")

    def _on_request_failed(self, request: Request) -> None:
        # Leaving a page aborts its pending requests, such as its stream.
        if request.failure != "net::ERR_ABORTED":
            self.lines.append(f"{request.method} {request.url}: {request.failure}")

    def _on_response(self, response: Response) -> None:
        if response.status >= 400 and not (
            response.status == 404 and _EXPLAIN_PATH in response.url
        ):
            self.lines.append(f"{response.request.method} {response.url}: {response.status}")
