"""The link to the console works from another site."""

from playwright.sync_api import Browser, expect

from tests.e2e.browser.console_cluster import ConsoleCluster


def test_link_works_from_another_site(browser: Browser, console_cluster: ConsoleCluster) -> None:
    """As from a chat or a web terminal: browsers send no SameSite cookies along."""
    with browser.new_context() as context:
        page = context.new_page()
        html = f"<a href='{console_cluster.link}'>Console</a>"
        page.route(
            "http://chat.example/",
            lambda route: route.fulfill(content_type="text/html", body=html),
        )
        page.goto("http://chat.example/")
        page.get_by_role("link", name="Console").click()
        expect(page.get_by_role("navigation", name="Pages")).to_be_visible()
