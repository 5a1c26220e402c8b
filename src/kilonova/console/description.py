"""What the page receives about tables, pages, actions and search, in its HTML document.

`frontend/src/data/description-types.ts` is generated from this module.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from kilonova.api.group_kinds import GroupKind
from kilonova.component.console import (
    Action,
    ConsoleContribution,
    GpuMetricsSource,
    MetricSeries,
    Page,
    Row,
    SearchTarget,
    Section,
    Series,
    Table,
    ValueInput,
)
from kilonova.component.console.pages import DescriptionStruct
from kilonova.console.contribution_checks import check_contributions


class TableDescription(DescriptionStruct, frozen=True):
    """A table and the kind of its objects."""

    name: str
    kind: str
    workload_kind: str
    """The kind in ids of workloads, with its API group where that is not implied."""


class ActionDescription(DescriptionStruct, frozen=True):
    """An action with a button in the details of an object."""

    name: str
    table: str
    title: str
    text: str
    """What the confirmation states will happen."""
    danger: bool = False
    when: str = ""
    """The boolean field of the row that has to be true; with a leading `!`, false."""
    value: ValueInput | None = None


class Description(DescriptionStruct, frozen=True):
    """Everything that components contribute to the page."""

    tables: tuple[TableDescription, ...]
    pages: tuple[Page, ...]
    """In the order of the navigation."""
    sections: dict[str, tuple[Section, ...]]
    """Sections in the details of objects, by table."""
    actions: tuple[ActionDescription, ...]
    search: tuple[SearchTarget, ...]


@dataclass(frozen=True, slots=True)
class Assembly:
    """The contributions of all components, checked and merged."""

    contributions: tuple[ConsoleContribution, ...]
    derived_tables: Mapping[str, type[Row]] = field(default_factory=dict[str, type[Row]])
    """Row types of tables that are not of one resource: joined from others, or polled."""

    def __post_init__(self) -> None:
        check_contributions(self.contributions, self.derived_tables)

    @property
    def tables(self) -> tuple[Table[Any], ...]:
        """All tables of a resource."""
        return tuple(table for each in self.contributions for table in each.tables)

    @property
    def actions(self) -> tuple[Action, ...]:
        """All actions."""
        return tuple(action for each in self.contributions for action in each.actions)

    @property
    def series(self) -> tuple[Series[Any], ...]:
        """All series."""
        return tuple(series for each in self.contributions for series in each.series)

    @property
    def metric_series(self) -> tuple[MetricSeries, ...]:
        """All series that components read themselves."""
        return tuple(series for each in self.contributions for series in each.metric_series)

    @property
    def gpu_metrics(self) -> tuple[GpuMetricsSource, ...]:
        """All sources of GPU metrics."""
        return tuple(each.gpu_metrics for each in self.contributions if each.gpu_metrics)

    @property
    def pages(self) -> tuple[Page, ...]:
        """All pages in the order of the navigation; a letter belongs to the first that has it."""
        found = (page for each in self.contributions for page in each.pages)
        ordered = sorted(found, key=lambda page: (page.order, page.title))
        return tuple(_assign_keys(ordered))

    def describe(self) -> Description:
        """What the page receives."""
        sections: dict[str, tuple[Section, ...]] = {}
        for each in self.contributions:
            for table, contributed in each.sections.items():
                sections[table] = (*sections.get(table, ()), *contributed)
        return Description(
            tables=tuple(map(_describe_table, self.tables)),
            pages=self.pages,
            sections=sections,
            actions=tuple(_describe_action(each) for each in self.actions if each.text),
            search=tuple(
                sorted(
                    (target for each in self.contributions for target in each.search),
                    key=lambda target: target.order,
                )
            ),
        )


def _describe_table(table: Table[Any]) -> TableDescription:
    resource = table.resource
    workload_kind = str(GroupKind(resource.group, resource.kind))
    return TableDescription(table.name, resource.kind, workload_kind)


def _assign_keys(pages: Iterable[Page]) -> Iterable[Page]:
    taken: set[str] = set()
    for page in pages:
        is_free = page.key not in taken
        taken.add(page.key)
        yield page if is_free else msgspec.structs.replace(page, key="")


def _describe_action(action: Action) -> ActionDescription:
    return ActionDescription(
        action.name,
        action.table,
        action.title or action.name.capitalize(),
        action.text,
        danger=action.danger,
        when=action.when,
        value=action.value,
    )
