"""The audits of the other tests find what they are there for."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from tests.harness.audit import faint_text, nameless, repeated_ids, too_wide
from tests.harness.browser import Complaints


@pytest.fixture
def blank(browser: Browser) -> Iterator[Page]:
    """A page without anything."""
    with browser.new_context(viewport={"width": 390, "height": 800}) as context:
        yield context.new_page()


def test_a_button_without_a_name_is_found(blank: Page) -> None:
    blank.set_content("<button><svg></svg></button><button aria-label='Close'>×</button>")
    (found,) = nameless(blank)
    assert found.startswith("button")


def test_ids_are_had_once(blank: Page) -> None:
    blank.set_content("<p id=a></p><p id=b></p><p id=a></p>")
    assert repeated_ids(blank) == ["a"]


def test_faint_text_is_found_whatever_is_behind_it(blank: Page) -> None:
    blank.set_content(
        """<body style="background: oklch(0.2 0 0); color: #fff">
        <p>Plain</p><p style="color: #777">Faint</p><p style="color: #777; display: none">Gone</p>
        <p style="color: #777; font-size: 32px">Large</p>
        <p style="background: rgb(255 255 255 / 90%)">Glass</p>"""
    )
    words = sorted(line.split('"')[1] for line in faint_text(blank))
    assert words == ["Faint", "Glass"]


def test_what_makes_a_page_scroll_to_the_side_is_named(blank: Page) -> None:
    wide = "<pre class=wide style='width: 500px'>x</pre>"
    blank.set_content(f"<!doctype html><main style='width: 100%'>{wide}</main>")
    width, *what = too_wide(blank)
    assert width.endswith(" of 390 px")
    assert what == ["pre.wide"]
    blank.set_content(f"<!doctype html><main style='overflow: auto'>{wide}</main>")
    assert too_wide(blank) == []


def test_what_goes_wrong_in_a_page_is_taken_down(blank: Page) -> None:
    complaints = Complaints()
    complaints.listen(blank)
    policy = {"content-type": "text/html", "content-security-policy": "style-src 'none'"}
    blank.route("http://page.test/", lambda route: route.fulfill(headers=policy))
    blank.route("http://page.test/lost", lambda route: route.fulfill(status=404))
    blank.goto("http://page.test/")
    with blank.expect_event("pageerror"):
        blank.evaluate("document.body.innerHTML = '<style>p {color: red}</style>'")
        blank.evaluate("fetch('/lost').then(() => setTimeout(() => { throw new Error('oh') }))")
    text = "\n".join(complaints.take())
    assert "content policy: style-src-elem inline" in text
    assert "GET http://page.test/lost: 404" in text
    assert "uncaught: oh" in text
    assert complaints.take() == []
