"""Pages that list row by row what another project describes, what is here, and its tests."""

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parents[1]
DOCS = TESTS.parent / "docs"
_BEGIN, _END = "<!-- rows -->\n", "<!-- end of rows -->\n"


@dataclass(frozen=True, slots=True)
class Row:
    """What the other project says of something, what is so here, and tests (`FILE::NAME`, below
    `tests`)."""

    described: str
    here: str
    tests: tuple[str, ...] = ()
    """None: it is not here, as `here` says."""

    def list_missing_tests(self) -> list[str]:
        """The tests that do not exist."""
        places = (each.partition("::") for each in self.tests)
        return [f"{file}::{name}" for file, _, name in places if name not in _list_tests(file)]


@dataclass(frozen=True, slots=True)
class FeaturePage:
    """A page with a table for each section, between two comments."""

    path: Path
    project: str
    """The other project, as the heading of the first column."""
    sections: Mapping[str, tuple[Row, ...]]

    def rows(self) -> Iterable[tuple[str, Row]]:
        """All rows, each with its section."""
        return [(section, row) for section, rows in self.sections.items() for row in rows]

    def render(self) -> str:
        """The whole page, with the tables as they are now."""
        head, _, rest = self.path.read_text().partition(_BEGIN)
        _, _, tail = rest.partition(_END)
        tables = "\n".join(self._render_lines())
        return f"{head}{_BEGIN}\n{tables}\n{_END}{tail}"

    def write(self) -> None:
        """Write the tables to the page."""
        self.path.write_text(self.render())

    def _render_lines(self) -> Iterator[str]:
        for section, rows in self.sections.items():
            yield from (f"## {section}", "", f"| {self.project} | here |", "|---|---|")
            yield from (f"| {row.described} | {row.here} |" for row in rows)
            yield ""


@cache
def _list_tests(file: str) -> frozenset[str]:
    """The functions of a module, and the test cases that it builds."""
    path = TESTS / file
    if not path.exists():
        return frozenset()
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names |= {each.id for each in node.targets if isinstance(each, ast.Name)}
    return frozenset(names)
