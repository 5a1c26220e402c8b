"""Lists the pages of components on the map of the documentation, `docs/README.md`.

`python -m tools.docs.component_pages` writes the lines of pages that registrations name, each below
its heading: in the place of the line that it had, else at the end of the table. With `--check` it
only reports whether the map is up to date.
"""

import argparse
import posixpath
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from kilonova.component import Component, DocsPage, find_components
from tools.tables import ROOT

MAP = "docs/README.md"


class UnknownSection(Exception):
    """A page for a heading that the map does not have."""

    def __init__(self, page: DocsPage) -> None:
        super().__init__(
            f"{MAP} has no table below a heading {page.section!r}, for {page.path}: add the "
            "heading and a table, or change `section` in the registration"
        )


def list_component_pages(text: str, components: Iterable[Component]) -> str:
    """The map with a line for every page of these components."""
    lines = text.split("\n")
    for component in components:
        for page in component.pages:
            _list_page(lines, page)
    return "\n".join(lines)


def _list_page(lines: list[str], page: DocsPage) -> None:
    link = posixpath.relpath(page.path, posixpath.dirname(MAP))
    line = f"| [{page.title}]({link}) | {page.summary} |"
    start, end = _find_table(lines, page)
    for number in range(start, end):
        if f"]({link})" in lines[number]:
            lines[number] = line
            return
    lines.insert(end, line)


def _find_table(lines: Sequence[str], page: DocsPage) -> tuple[int, int]:
    """The first line of the table of a section, and the line after its last."""
    try:
        start = lines.index(f"## {page.section}")
    except ValueError:
        raise UnknownSection(page) from None
    rows = (number for number in range(start + 1, len(lines)) if lines[number].startswith("|"))
    first = next(rows, None)
    if first is None or any(each.startswith("#") for each in lines[start + 1 : first]):
        raise UnknownSection(page)
    end = first
    while end < len(lines) and lines[end].startswith("|"):
        end += 1
    return first, end


def main() -> None:
    """Write the map, or check it; exits with 1 and a message if it is out of date."""
    parser = argparse.ArgumentParser(prog="python -m tools.docs.component_pages")
    parser.add_argument("--check", action="store_true", help="only report")
    check: bool = parser.parse_args().check
    file: Path = ROOT / MAP
    text = file.read_text()
    try:
        wanted = list_component_pages(text, find_components())
    except UnknownSection as error:
        sys.exit(str(error))
    if check and text != wanted:
        sys.exit(f"{MAP} is out of date: run python -m tools.docs.component_pages")
    if not check:
        file.write_text(wanted)


if __name__ == "__main__":
    main()
