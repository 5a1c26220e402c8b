"""The audits used by the other browser tests detect what they should."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from tests.harness.accessibility import (
    find_low_contrast_text,
    find_overflowing_elements,
    find_repeated_ids,
    find_unnamed_controls,
)
from tests.harness.browser import PageErrors


@pytest.fixture
def blank_page(browser: Browser) -> Iterator[Page]:
    """An empty page."""
    with browser.new_context(viewport={"width": 390, "height": 800}) as context:
        yield context.new_page()


def test_button_without_a_name_is_found(blank_page: Page) -> None:
    blank_page.set_content("<button><svg></svg></button><button aria-label='Close'>×</button>")
    (found,) = find_unnamed_controls(blank_page)
    assert found.startswith("button")


def test_repeated_ids_are_found(blank_page: Page) -> None:
    blank_page.set_content("<p id=a></p><p id=b></p><p id=a></p>")
    assert find_repeated_ids(blank_page) == ["a"]


def test_low_contrast_text_is_found_on_any_background(blank_page: Page) -> None:
    blank_page.set_content(
        """<body style="background: oklch(0.2 0 0); color: #fff">
        <p>Plain</p><p style="color: #777">Faint</p><p style="color: #777; display: none">Gone</p>
        <p style="color: #777; font-size: 32px">Large</p>
        <p style="background: rgb(255 255 255 / 90%)">Glass</p>"""
    )
    texts = sorted(line.split('"')[1] for line in find_low_contrast_text(blank_page))
    assert texts == ["Faint", "Glass"]


def test_overflowing_elements_are_named(blank_page: Page) -> None:
    wide = "<pre class=wide style='width: 500px'>x</pre>"
    blank_page.set_content(f"<!doctype html><main style='width: 100%'>{wide}</main>")
    width, *elements = find_overflowing_elements(blank_page)
    assert width.endswith(" of 390 px")
    assert elements == ["pre.wide"]
    blank_page.set_content(f"<!doctype html><main style='overflow: auto'>{wide}</main>")
    assert find_overflowing_elements(blank_page) == []


def test_page_errors_are_recorded(blank_page: Page) -> None:
    browser_errors = PageErrors()
    browser_errors.listen(blank_page)
    policy = {"content-type": "text/html", "content-security-policy": "style-src 'none'"}
    blank_page.route("http://page.test/", lambda route: route.fulfill(headers=policy))
    blank_page.route("http://page.test/lost", lambda route: route.fulfill(status=404))
    blank_page.goto("http://page.test/")
    with blank_page.expect_event("pageerror"):
        blank_page.evaluate("document.body.innerHTML = '<style>p {color: red}</style>'")
        blank_page.evaluate(
            "fetch('/lost').then(() => setTimeout(() => { throw new Error('oh') }))"
        )
    text = "\n".join(browser_errors.take_all())
    assert "content policy: style-src-elem inline" in text
    assert "GET http://page.test/lost: 404" in text
    assert "uncaught: oh" in text
    assert browser_errors.take_all() == []
