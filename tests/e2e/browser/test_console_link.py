"""The link to the console works wherever it is clicked."""

from playwright.sync_api import Browser, expect

from tests.e2e.browser.place import Place


def test_the_link_works_from_a_page_elsewhere(browser: Browser, place: Place) -> None:
    """As from a chat, or a terminal in the browser: cookies are not sent along from there."""
    with browser.new_context() as context:
        page = context.new_page()
        elsewhere = f"<a href='{place.link}'>Console</a>"
        page.route(
            "http://chat.example/",
            lambda route: route.fulfill(content_type="text/html", body=elsewhere),
        )
        page.goto("http://chat.example/")
        page.get_by_role("link", name="Console").click()
        expect(page.get_by_role("navigation", name="Pages")).to_be_visible()
