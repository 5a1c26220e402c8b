"""The navigation of the site: the front page's headings and the tables below them.

The front page is the only table of contents: a page that it does not list would be missing from the
menu, and is an error.
"""

import re
from collections.abc import Mapping, Sequence

_GROUP = re.compile(r"^## (.+)$")
_ENTRY = re.compile(r"^\| *\[(?P<title>[^]]+)\]\((?P<page>[^)#]+\.md)\)")

FRONT_PAGE = "README.md"
_FILES = "files/"

Entry = dict[str, str]
Group = dict[str, str | list[Entry]]


class PageNotInMenu(Exception):
    """A page that the front page does not list."""

    def __init__(self, pages: Sequence[str]) -> None:
        super().__init__(f"docs/README.md does not list {', '.join(pages)}: add a line there")


def build_menu(pages: Mapping[str, str]) -> list[Group]:
    """The front page, then a group for each of its headings with the pages below it."""
    groups: list[Group] = [{"Documentation": FRONT_PAGE}]
    entries: list[Entry] = []
    listed = {FRONT_PAGE}
    for line in pages[FRONT_PAGE].splitlines():
        if heading := _GROUP.match(line):
            entries = []
            groups.append({heading[1]: entries})
        elif entry := _ENTRY.match(line):
            entries.append({entry["title"]: entry["page"]})
            listed.add(entry["page"])
    if lost := [page for page in pages if page not in listed and not page.startswith(_FILES)]:
        raise PageNotInMenu(lost)
    return groups
