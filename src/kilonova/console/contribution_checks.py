"""Checks of contributions when a console is built: names are unique, and references exist. Pure."""

import re
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from kilonova.component.console import (
    Charts,
    Column,
    Conditions,
    ConsoleContribution,
    Entries,
    Fields,
    Histogram,
    InvalidContribution,
    Page,
    Related,
    Row,
    SearchTarget,
    Section,
    TimeChart,
)
from kilonova.component.console.pages import Chart

_PATH_PATTERN = re.compile(r"/[a-z0-9][a-z0-9-]*", re.ASCII)
_NAME_PATTERN = re.compile(r"[a-z0-9][a-z0-9-]*", re.ASCII)
_RESERVED_PATHS = ("/api", "/assets", "/healthz")
_RESERVED_PARAMETERS = ("q", "sort", "range")
"""Query parameters of every page."""
_ID_FIELDS = frozenset({"id", "name", "namespace", "kind"})
"""Fields of every row: the id and its parts."""


def check_contributions(
    contributions: Sequence[ConsoleContribution], derived_tables: Mapping[str, type[Row]]
) -> None:
    """`InvalidContribution` for the first problem."""
    _check_unique(contributions, "table", lambda each: [table.name for table in each.tables])
    for each in contributions:
        for table in each.tables:
            if table.name in derived_tables:
                problem = f"table {table.name} is computed by the console: choose another name"
                raise InvalidContribution(each.component, problem)
    _check_unique(contributions, "page", lambda each: [page.path for page in each.pages])
    _check_unique(contributions, "series", _series_names)
    _check_unique(
        contributions, "action", lambda each: [f"{a.name} of table {a.table}" for a in each.actions]
    )
    rows: dict[str, type[Row] | None] = {**derived_tables}
    rows |= {table.name: table.row_type for c in contributions for table in c.tables}
    fields = {table: _list_fields(row) for table, row in rows.items()}
    entries = {
        (table, field): names
        for table, row in rows.items()
        for field, names in _list_entry_fields(row).items()
    }
    series = frozenset(name for each in contributions for name in _series_names(each))
    names = _Names(fields, entries, frozenset(fields) - frozenset(derived_tables), series)
    for each in contributions:
        for problem in names.find_problems(each):
            raise InvalidContribution(each.component, problem)


def _check_unique(
    contributions: Iterable[ConsoleContribution],
    what: str,
    names_of: Callable[[ConsoleContribution], Iterable[str]],
) -> None:
    owners: dict[str, str] = {}
    for each in contributions:
        for name in names_of(each):
            if name in owners:
                problem = f"{what} {name} exists already, from {owners[name]}: choose another name"
                raise InvalidContribution(each.component, problem)
            owners[name] = each.component


def _series_names(contribution: ConsoleContribution) -> list[str]:
    declared = (*contribution.series, *contribution.metric_series)
    return [name for each in declared for name in each.names]


def _list_fields(row: type[Row] | None) -> frozenset[str] | None:
    """The fields of a row on the wire; None if its type is not declared."""
    return None if row is None else frozenset(row.__struct_encode_fields__)


def _list_entry_fields(row: type[Row] | None) -> dict[str, frozenset[str]]:
    """For each field of a row that is a list of records, the fields of these."""
    found: dict[str, frozenset[str]] = {}
    for field in () if row is None else msgspec.structs.fields(row):
        for item in typing.get_args(field.type):
            if isinstance(item, type) and issubclass(item, msgspec.Struct):
                found[field.encode_name] = frozenset(item.__struct_encode_fields__)
    return found


@dataclass(frozen=True, slots=True)
class _Names:
    """The names that contributions may refer to."""

    fields: Mapping[str, frozenset[str] | None]
    """Fields by table."""
    entries: Mapping[tuple[str, str], frozenset[str]]
    """Fields of the records in a field of a table."""
    resource_tables: frozenset[str]
    """Tables of the objects of a resource."""
    series: frozenset[str]

    def find_problems(self, contribution: ConsoleContribution) -> Iterator[str]:
        for table in contribution.tables:
            if not _NAME_PATTERN.fullmatch(table.name):
                yield f"table {table.name!r}: want lower case letters, digits and `-`"
        for page in contribution.pages:
            yield from self._check_page(page)
        for table, sections in contribution.sections.items():
            for section in sections:
                yield from self._check_section(f"section of {table}", table, section)
        for action in contribution.actions:
            where = f"action {action.name}"
            yield from self._check_table(where, action.table)
            used = (action.when.removeprefix("!"), action.value.field if action.value else "")
            yield from self._check_fields(where, action.table, filter(None, used))
        for target in contribution.search:
            yield from self._check_search(target)
        for name in _series_names(contribution):
            if not _NAME_PATTERN.fullmatch(name):
                yield f"series {name!r}: want lower case letters, digits and `-`"
        for series in contribution.series:
            if series.table not in self.resource_tables:
                known = ", ".join(sorted(self.resource_tables))
                where = f"series {', '.join(series.names)}"
                yield f"{where}: unknown table {series.table!r}: want one of {known}"

    def _check_page(self, page: Page) -> Iterator[str]:
        where = f"page {page.path}"
        if not _PATH_PATTERN.fullmatch(page.path):
            yield f"{where}: want `/` and lower case letters, digits and `-`"
        if page.path in _RESERVED_PATHS:
            yield f"{where} is reserved: choose another path"
        if len(page.key) > 1:
            yield f"{where}: key {page.key!r}: want one letter"
        for chart in page.charts:
            yield from self._check_chart(where, chart)
        if not page.table:
            if page.columns or page.sections:
                yield f"{where} has columns or sections: name their table"
            return
        yield from self._check_table(where, page.table)
        if not page.columns:
            yield f"{where} has a table without columns: name some"
        columns = (*page.columns, page.state) if page.state is not None else page.columns
        yield from self._check_columns(where, page.table, columns)
        sort = page.sort.removeprefix("-")
        if sort and all(sort != each.field for each in page.columns):
            yield f"{where}: sort {page.sort!r} is not a column"
        for section in page.sections:
            yield from self._check_section(where, page.table, section)

    def _check_section(self, where: str, table: str, section: Section) -> Iterator[str]:
        yield from self._check_table(where, table)
        match section:
            case Fields():
                yield from self._check_columns(where, section.table or table, section.fields)
            case Conditions():
                yield from self._check_fields(where, table, [section.field])
            case Related():
                yield from self._check_columns(where, section.table, section.columns)
                yield from self._check_fields(where, section.table, [section.by])
                if section.equals != "object":
                    yield from self._check_fields(where, table, [section.equals])
            case Entries():
                yield from self._check_entries(where, table, section)
            case Charts():
                for chart in section.charts:
                    yield from self._check_chart(where, chart)
            case _:
                pass

    def _check_entries(self, where: str, table: str, section: Entries) -> Iterator[str]:
        yield from self._check_fields(where, table, [section.field])
        known = self.entries.get((table, section.field))
        if known is None:
            yield f"{where}: field {section.field!r} of table {table} is no list of records"
            return
        for column in section.columns:
            if column.field not in known:
                names = ", ".join(sorted(known))
                yield (
                    f"{where}: records of {section.field} have no field {column.field!r}: want one "
                    f"of {names}"
                )
            if column.link and column.link != "object":
                yield from self._check_table(f"{where}, link of {column.field}", column.link)

    def _check_chart(self, where: str, chart: Chart) -> Iterator[str]:
        match chart:
            case TimeChart():
                used = [line.series for line in chart.lines]
                used += [chart.by_key] if chart.by_key else []
                if not used:
                    yield f"{where}: chart {chart.title} has no lines: name a series"
                for name in used:
                    if name not in self.series:
                        known = ", ".join(sorted(self.series)) or "none"
                        yield f"{where}: unknown series {name!r}: want one of {known}"
            case Histogram():
                yield from self._check_fields(where, chart.table, [chart.field])

    def _check_columns(self, where: str, table: str, columns: Iterable[Column]) -> Iterator[str]:
        for column in columns:
            yield from self._check_fields(where, table, [column.field])
            if column.filter and column.field in _RESERVED_PARAMETERS:
                yield f"{where}: {column.field} cannot be a filter: its name is used in addresses"
            if column.link and column.link != "object":
                yield from self._check_table(f"{where}, link of {column.field}", column.link)

    def _check_search(self, target: SearchTarget) -> Iterator[str]:
        used = re.findall(r"{(\w+)}", " ".join(target.detail))
        yield from self._check_fields(f"search target {target.kind}", target.table, used)

    def _check_fields(self, where: str, table: str, used: Iterable[str]) -> Iterator[str]:
        yield from self._check_table(where, table)
        known = self.fields.get(table)
        if known is None:
            return
        for field in used:
            if field not in known | _ID_FIELDS:
                names = ", ".join(sorted(known))
                yield f"{where}: table {table} has no field {field!r}: want one of {names}"

    def _check_table(self, where: str, table: str) -> Iterator[str]:
        if table not in self.fields:
            known = ", ".join(sorted(self.fields))
            yield f"{where}: unknown table {table!r}: want one of {known}"
